-- What is leased, to whom and since when; the oldest first. Reads only. Walks along all leases.
--
-- Uses: held_leases.lua
-- Flags: no-writes
-- KEYS  as in keys.lua
-- ARGV  1 most to return
-- Returns {key (8 bytes), token, attempt, failures, downloaded (0, 1, or 2 for a spare), deadline and since when (microseconds since the epoch), slot,
--          callback, worker, payload, ...}; empty when there is no crawl
-- Error RELEASE when the crawl is of another version.
-- After a crash: nothing has changed.

local most = tonumber(ARGV[1])
local other = other_version()
if other then return of_other_release(other) end
if not most then return redis.error_reply('ERR the number is not a number') end
return rows_of_leases(redis.call('HGETALL', LEASES), most)
