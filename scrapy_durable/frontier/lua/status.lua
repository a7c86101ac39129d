-- Every count of the crawl, at one moment. Reads only.
--
-- Walks along the leases, the dead letters and the delayed elements; what is queued and done is counted already.
--
-- Flags: no-writes
-- KEYS  as in keys.lua
-- ARGV  1 offset of the clock (microseconds; tests only)
-- Returns {} when there is no crawl, else
--         {crawl's id,
--          cells {slot, callback, queued, delayed, leased, dead, done, ...},
--          elements past due,
--          age of the oldest that waits (seconds; -1: none waits),
--          workers {name, leases held, microseconds since the epoch when it was last heard of, its own numbers as it
--              wrote them ("": none), ...},
--          stale messages,
--          identity of the crawl ("": none was noted),
--          microseconds since the epoch by the crawl's clock}
-- Error RELEASE when the crawl is of another version.

local other = other_version()
if other then return of_other_release(other) end
local now = clock(ARGV[1])
local crawl_id = redis.call('HGET', CRAWL, 'id')
if not crawl_id then return {} end

local cells = {}
local function cell(slot, callback)
    local name = slot .. ':' .. callback
    cells[name] = cells[name] or {slot, callback, 0, 0, 0, 0, 0}
    return cells[name]
end
local QUEUED, DELAYED_ONES, LEASED, DEAD_ONES, DONE = 3, 4, 5, 6, 7

local tally = redis.call('HGETALL', TALLY)
for i = 1, #tally, 2 do
    local what, slot, callback = string.match(tally[i], '^(%a+):(%d+):(%d+)$')
    local number, one = tonumber(tally[i + 1]), cell(slot, callback)
    if what == 'pushed' then
        one[QUEUED] = one[QUEUED] + number
    else
        one[QUEUED] = one[QUEUED] - number
        one[DONE] = number
    end
end

local function move(prefix, state)
    local slot, _, _, callback = unpack_prefix(prefix)
    local one = cell(slot, callback)
    one[QUEUED] = one[QUEUED] - 1
    one[state] = one[state] + 1
end

local holds = {}
for _, lease in ipairs(redis.call('HVALS', LEASES)) do
    local worker = holder_of(lease)
    holds[worker] = (holds[worker] or 0) + 1
    move(prefix_of(lease), LEASED)
end
for _, death in ipairs(redis.call('HVALS', DEAD)) do
    local _, _, prefix = unpack_death(death)
    move(prefix, DEAD_ONES)
end
for _, member in ipairs(redis.call('ZRANGEBYSCORE', DELAYED, '(' .. decimal(now), '+inf')) do
    move(member, DELAYED_ONES)
end
local past_due = redis.call('SCARD', OVERDUE) + redis.call('ZCOUNT', DELAYED, '-inf', decimal(now))

local rows = {}
for _, one in pairs(cells) do
    one[1] = redis.call('HGET', NAMES, 'slot#' .. one[1])
    one[2] = redis.call('HGET', NAMES, 'callback#' .. one[2])
    for _, value in ipairs(one) do rows[#rows + 1] = value end
end

local oldest = -1
for _, second in ipairs(redis.call('HKEYS', AGES)) do
    oldest = math.max(oldest, math.floor(now / 1000000) - tonumber(second))
end

local workers = {}
local seen = redis.call('HGETALL', WORKERS)
for i = 1, #seen, 2 do
    local report = redis.call('HGET', REPORTS, seen[i])
    if report or holds[seen[i]] or tonumber(seen[i + 1]) >= now - HOUR then
        local n = #workers
        workers[n + 1], workers[n + 2], workers[n + 3] = seen[i], holds[seen[i]] or 0, seen[i + 1]
        workers[n + 4] = report or ''
    end
end

local stale, identity = tonumber(redis.call('HGET', CRAWL, 'stale') or 0), redis.call('HGET', CRAWL, 'identity') or ''
return {crawl_id, rows, past_due, oldest, workers, stale, identity, now}
