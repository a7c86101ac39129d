-- Remove the oldest dead letters, and forget that they were ever pushed.
--
-- Flags: allow-oom
-- KEYS  as in keys.lua
-- ARGV  1 most to remove in this call: the caller calls until fewer come back
-- Returns how many
-- Error RELEASE when the crawl is of another version.
-- After a crash: those of this call are gone, the others still dead; call again.

local other = other_version()
if other then return of_other_release(other) end
local most = tonumber(ARGV[1])
if not redis.call('HGET', CRAWL, 'id') then return 0 end
local keys = redis.call('ZRANGE', DEATHS, 0, most - 1)
for _, key in ipairs(keys) do
    local _, _, prefix = unpack_death(redis.call('HGET', DEAD, key))
    local slot, _, _, callback = unpack_prefix(prefix)
    redis.call('HINCRBY', TALLY, 'pushed:' .. slot .. ':' .. callback, -1)
    redis.call('HINCRBY', TALLY, 'dead:' .. slot .. ':' .. callback, -1)
    redis.call('HDEL', DEAD, key)
    redis.call('ZREM', DEATHS, key)
    redis.call('HDEL', ELEMENTS, key)
end
return #keys
