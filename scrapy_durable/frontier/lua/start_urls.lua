-- What waits under a start key, first come first. What is too long to be a request is taken off and told by its beginning.
--
-- It has one key of its own, which is not of the frontier's: nothing is put in front of it.
--
-- Flags: allow-oom
-- KEYS  1 the start key
-- ARGV  1 type that it has to be: "list", "set" or "zset"
--       2 most values to return
--       3 bytes that a value may have
-- Returns {type that it is ("none" when it is not there), values, too long ones: {bytes, the first hundred of them, ...}};
--         no values when the type is another one
-- After a crash: the values are where they were; what was too long is gone.

local wanted, most, longest = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local kind = redis.call('TYPE', KEYS[1]).ok
if kind ~= wanted then return {kind, {}, {}} end
local found
if kind == 'list' then
    found = redis.call('LRANGE', KEYS[1], 0, most - 1)
elseif kind == 'set' then
    found = redis.call('SRANDMEMBER', KEYS[1], most)
else
    found = redis.call('ZREVRANGE', KEYS[1], 0, most - 1)
end
local values, cut = {}, {}
for _, value in ipairs(found) do
    if #value <= longest then
        values[#values + 1] = value
    else
        cut[#cut + 1], cut[#cut + 2] = #value, string.sub(value, 1, 100)
        if kind == 'list' then
            redis.call('LREM', KEYS[1], 1, value)
        elseif kind == 'set' then
            redis.call('SREM', KEYS[1], value)
        else
            redis.call('ZREM', KEYS[1], value)
        end
    end
end
return {kind, values, cut}
