-- Queue dead letters again, the oldest or those that are named, with their attempts and failures back at zero. How often
-- requests were given up, by reason, stays as it was.
--
-- Uses: rotation.lua
-- KEYS  as in keys.lua
-- ARGV  1 most to queue in this call: the caller calls until fewer come back
--       2 offset of the clock (microseconds; tests only)
--       3 and following: keys (8 bytes each) of those to queue, as many as there may be in a call; without: the oldest
-- Returns how many
-- Error RELEASE when the crawl is of another version.
-- After a crash: those of this call are queued, the others still dead; call again.

local other = other_version()
if other then return of_other_release(other) end
local most, now = tonumber(ARGV[1]), clock(ARGV[2])
if not redis.call('HGET', CRAWL, 'id') then return 0 end
local keys = {}
if #ARGV > 2 then
    local named = {}
    for i = 3, #ARGV do
        if not named[ARGV[i]] and redis.call('HEXISTS', DEAD, ARGV[i]) == 1 then
            named[ARGV[i]] = true
            keys[#keys + 1] = ARGV[i]
        end
    end
else
    keys = redis.call('ZRANGE', DEATHS, 0, most - 1)
end
for _, key in ipairs(keys) do
    local _, _, prefix = unpack_death(redis.call('HGET', DEAD, key))
    local slot, _, arrival, callback = unpack_prefix(prefix)
    redis.call('HINCRBY', TALLY, 'dead:' .. slot .. ':' .. callback, -1)
    redis.call('HDEL', DEAD, key)
    redis.call('ZREM', DEATHS, key)
    redis.call('ZADD', READY, 0, prefix .. key)
    count_waiting(arrival, 1)
    mark(slot)
end
place_marked(now)
store_waiting()
if #keys > 0 then redis.call('HDEL', CRAWL, 'finisher') end
return #keys
