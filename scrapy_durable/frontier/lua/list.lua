-- The requests in one state, the first of them. Reads only, and looks at so many as it is told, whatever is queued.
--
-- Uses: element.lua
-- Flags: no-writes
-- KEYS  as in keys.lua
-- ARGV  1 offset of the clock (microseconds; tests only)
--       2 "queued", "delayed", "leased" or "dead"
--       3 most to look at
--       4 most to return
--       5 slot, 6 callback: their names; "" for all
-- Returns {how many of those looked at match, how many were looked at, how many there are, {key (8 bytes), what element.lua tells, ...}}
--         Queued: by slot and rank, of the named slot alone; delayed: by time; leased: by token; dead: by time of death.
--         Of the leased, those that are looked at are any where there are more.
-- Error RELEASE when the crawl is of another version.
-- After a crash: nothing has changed.

local other = other_version()
if other then return of_other_release(other) end
local now, state, window, most = clock(ARGV[1]), ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])
if not (window and most) then return redis.error_reply('ERR the number is not a number') end
local slot = ARGV[5] ~= '' and tonumber(redis.call('HGET', NAMES, 'slot:' .. ARGV[5]) or -1)
local callback = ARGV[6] ~= '' and tonumber(redis.call('HGET', NAMES, 'callback:' .. ARGV[6]) or -1)
if slot == -1 or callback == -1 then return {0, 0, 0} end

local function leased()
    local tokens, found, cursor = {}, {}, '0'
    repeat
        local page = redis.call('HSCAN', LEASES, cursor, 'COUNT', window)
        cursor = page[1]
        for i = 1, #page[2], 2 do
            local key = page[2][i]
            if not tokens[key] then found[#found + 1] = key end
            tokens[key] = (unpack_lease(page[2][i + 1]))
        end
    until cursor == '0' or #found >= window
    table.sort(found, function(a, b) return tokens[a] < tokens[b] end)
    return found
end

local members, total
if state == 'queued' then
    local from, to = '-', '+'
    if slot then from, to = range_of(slot) end
    members = redis.call('ZRANGEBYLEX', READY, from, to, 'LIMIT', 0, window)
    total = redis.call('ZLEXCOUNT', READY, from, to)
elseif state == 'delayed' then
    local after = '(' .. decimal(now)
    members = redis.call('ZRANGEBYSCORE', DELAYED, after, '+inf', 'LIMIT', 0, window)
    total = redis.call('ZCOUNT', DELAYED, after, '+inf')
elseif state == 'leased' then
    members, total = leased(), redis.call('HLEN', LEASES)
else
    members, total = redis.call('ZRANGE', DEATHS, 0, window - 1), redis.call('ZCARD', DEATHS)
end

local matched, looked, rows = 0, math.min(#members, window), {}
for i = 1, looked do
    local key = string.sub(members[i], -8)
    local record = redis.call('HGET', ELEMENTS, key)
    local of_slot, _, _, of_callback = unpack_prefix(record)
    if (not slot or slot == of_slot) and (not callback or callback == of_callback) then
        matched = matched + 1
        if matched <= most then
            rows[#rows + 1] = key
            rows[#rows + 1] = row_of_element(key, record, now)
        end
    end
end
return {matched, looked, total, rows}
