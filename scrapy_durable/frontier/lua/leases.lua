-- What is leased, to whom and since when; the oldest first. Reads only. Walks along all leases.
--
-- Flags: no-writes
-- KEYS  as in keys.lua
-- ARGV  1 most to return
-- Returns {key (8 bytes), token, attempt, failures, downloaded (0 or 1), deadline and since when (microseconds since the epoch), slot,
--          callback, worker, payload, ...}; empty when there is no crawl
-- Error RELEASE when the crawl is of another version.
-- After a crash: nothing has changed.

local most = tonumber(ARGV[1])
local other = other_version()
if other then return of_other_release(other) end
if not most then return redis.error_reply('ERR the number is not a number') end
local found = {}
local all = redis.call('HGETALL', LEASES)
for i = 1, #all, 2 do
    found[#found + 1] = {token = (unpack_lease(all[i + 1])), key = all[i], lease = all[i + 1]}
end
-- A token that is higher was given later.
table.sort(found, function(a, b) return a.token < b.token end)

local rows = {}
for i = 1, math.min(most, #found) do
    local token, attempt, failures, downloaded, deadline, slot, _, _, callback = unpack_lease(found[i].lease)
    local n = #rows
    rows[n + 1], rows[n + 2], rows[n + 3], rows[n + 4] = found[i].key, token, attempt, failures
    rows[n + 5], rows[n + 6], rows[n + 7] = downloaded, deadline, (struct.unpack('>I7', since_of(found[i].lease)))
    rows[n + 8] = redis.call('HGET', NAMES, 'slot#' .. slot)
    rows[n + 9] = redis.call('HGET', NAMES, 'callback#' .. callback)
    rows[n + 10] = holder_of(found[i].lease)
    rows[n + 11] = string.sub(redis.call('HGET', ELEMENTS, found[i].key), PREFIX + 1)
end
return rows
