-- End the pause of a slot, if it was set for this reason. An interval goes on.
--
-- Uses: rotation.lua
-- Flags: allow-oom
-- KEYS  as in keys.lua
-- ARGV  1 offset of the clock (microseconds; tests only)
--       2 slot's name
--       3 reason
-- Returns 1, or 0 when there is no such pause
-- Error RELEASE when the crawl is of another version, LOST when there is none.
-- After a crash: all of it has happened, or nothing.

local other = other_version()
if other then return of_other_release(other) end
if not redis.call('HGET', CRAWL, 'id') then return lost() end
local now = clock(ARGV[1])
local slot = redis.call('HGET', NAMES, 'slot:' .. ARGV[2])
local pause = slot and redis.call('HGET', PAUSED, slot)
if not pause then return 0 end
local ends, reason = unpack_pause(pause)
if ends <= now or reason ~= ARGV[3] then return 0 end
redis.call('HDEL', PAUSED, slot)
displace(tonumber(slot))
place_marked(now)
return 1
