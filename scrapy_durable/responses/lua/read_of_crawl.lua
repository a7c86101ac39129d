-- Reads values of one hash that are not too large, whoever has put them there.
--
-- KEYS[1]    hash
-- ARGV[1]    the most bytes that a value may have
-- ARGV[2..]  fields
--
-- Returns, for each field in its order: the value; its length, when it has more bytes; nil, when there is none.
-- Writes nothing.

local most = tonumber(ARGV[1])
local found = {}
for i = 2, #ARGV do
    local length = redis.call('HSTRLEN', KEYS[1], ARGV[i])
    if length > most then
        found[i - 1] = length
    else
        found[i - 1] = redis.call('HGET', KEYS[1], ARGV[i])
    end
end
return found
