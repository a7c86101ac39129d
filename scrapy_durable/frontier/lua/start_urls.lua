-- Takes values off a start key, first come first, and keeps them among those that are being queued: each under an id of
-- its own, until `ZREM` says that it is in the frontier. What somebody has taken and not queued for long is taken again.
--
-- The start key is not of the frontier's: nothing is put in front of it.
--
-- Flags: allow-oom
-- KEYS  1 the start key
--       2 what is being queued: a sorted set of "<id>:<number>:<value>" by the time when it was taken
-- ARGV  1 type that the start key has to be: "list", "set" or "zset"
--       2 most values to return
--       3 bytes that a value may have
--       4 an id that no other call has, of hexadecimal digits
--       5 seconds after which somebody's values are taken again
-- Returns {type that it is ("none" when it is not there), "<id>:<number>:<value>" of each value,
--          too long ones: {bytes, the first hundred of them, ...}, how many values others are queueing};
--         nothing new when the type is another one
-- After a crash: each value is under the start key, or among those that are being queued; what was too long is gone.

local wanted, most, longest, id, lease_seconds = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), ARGV[4], tonumber(ARGV[5])
local time = redis.call('TIME')
local now = time[1] + time[2] / 1000000
local kind = redis.call('TYPE', KEYS[1]).ok

local taken = redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', now - lease_seconds, 'LIMIT', 0, most)
for _, member in ipairs(taken) do redis.call('ZADD', KEYS[2], now, member) end

local found = {}
local room = most - #taken
if kind == wanted and room > 0 then
    if kind == 'list' then
        found = redis.call('LRANGE', KEYS[1], 0, room - 1)
        redis.call('LTRIM', KEYS[1], room, -1)
    elseif kind == 'set' then
        found = redis.call('SPOP', KEYS[1], room)
    else
        found = redis.call('ZREVRANGE', KEYS[1], 0, room - 1)
        if #found > 0 then redis.call('ZREM', KEYS[1], unpack(found)) end
    end
end

local cut = {}
for number, value in ipairs(found) do
    if #value <= longest then
        local member = id .. ':' .. number .. ':' .. value
        redis.call('ZADD', KEYS[2], now, member)
        taken[#taken + 1] = member
    else
        cut[#cut + 1], cut[#cut + 2] = #value, string.sub(value, 1, 100)
    end
end
return {kind, taken, cut, redis.call('ZCARD', KEYS[2]) - #taken}
