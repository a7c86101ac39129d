-- Puts another body in the place of that of an answer of a crawl; all else, and when it expires, stays as it was.
--
-- KEYS[1]  hash of the crawl
-- ARGV[1]  field
-- ARGV[2]  the body, packed
--
-- A value is format (1 byte), status (2), time (8), length of the URL (4), the URL, and the body.
-- Returns 1, or 0 when there is no such answer, or none of ours: then it writes nothing.

local value = redis.call('HGET', KEYS[1], ARGV[1])
if not value or #value < 15 then
    return 0
end
local length = 0
for i = 12, 15 do
    length = length * 256 + string.byte(value, i)
end
redis.call('HSET', KEYS[1], ARGV[1], string.sub(value, 1, 15 + length) .. ARGV[2])
return 1
