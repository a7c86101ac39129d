-- The dead letters, oldest first. Reads only.
--
-- Flags: no-writes
-- KEYS  as in keys.lua
-- ARGV  1 most to return, 2 how many of the oldest to leave out
-- Returns {key (8 bytes), slot, callback, attempts, failures, reason, microseconds since the epoch of death, payload, ...}
-- Error RELEASE when the crawl is of another version.

local other = other_version()
if other then return of_other_release(other) end
local rows = {}
local deaths = redis.call('ZRANGE', DEATHS, ARGV[2], ARGV[1] + ARGV[2] - 1, 'WITHSCORES')
for i = 1, #deaths, 2 do
    local key = deaths[i]
    local attempts, failures, prefix, reason = unpack_death(redis.call('HGET', DEAD, key))
    local slot, _, _, callback = unpack_prefix(prefix)
    local n = #rows
    rows[n + 1] = key
    rows[n + 2] = redis.call('HGET', NAMES, 'slot#' .. slot)
    rows[n + 3] = redis.call('HGET', NAMES, 'callback#' .. callback)
    rows[n + 4], rows[n + 5], rows[n + 6], rows[n + 7] = attempts, failures, reason, deaths[i + 1]
    rows[n + 8] = string.sub(redis.call('HGET', ELEMENTS, key), PREFIX + 1)
end
return rows
