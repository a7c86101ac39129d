-- Puts another value in the place of an answer of a crawl, unless it has changed; when it expires stays as it was.
--
-- KEYS[1]  hash of the crawl
-- ARGV[1]  field
-- ARGV[2]  SHA-1 of the value that is there, in hexadecimal
-- ARGV[3]  the value in its place
--
-- Returns 1; 0 when there is no such answer any more, -1 when it is another one: then it writes nothing.

local value = redis.call('HGET', KEYS[1], ARGV[1])
if not value then
    return 0
end
if redis.sha1hex(value) ~= ARGV[2] then
    return -1
end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[3])
return 1
