-- Reads values that are not too large, whoever has put them there.
--
-- KEYS     strings
-- ARGV[1]  the most bytes that a value may have
--
-- Returns, for each key in its order: the value; its length, when it has more bytes; nil, when there is none or it is
-- no string. Writes nothing.

local most = tonumber(ARGV[1])
local found = {}
for i, key in ipairs(KEYS) do
    local length = redis.pcall('STRLEN', key)
    if type(length) ~= 'number' then
        found[i] = false
    elseif length > most then
        found[i] = length
    else
        found[i] = redis.call('GET', key)
    end
end
return found
