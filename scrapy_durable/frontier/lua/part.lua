-- Read what was left for the end of the crawl under a name.
--
-- Flags: no-writes
-- KEYS  as in keys.lua
-- ARGV  1 crawl's id
--       2 name
--       3 the most bytes that it may have
-- Returns what was left, false when nothing was, its length when it has more; error LOST when the crawl is gone
-- After a crash: nothing has changed.

if not is_joined(ARGV[1]) then return lost() end
local length = redis.call('HSTRLEN', PARTS, ARGV[2])
if length > tonumber(ARGV[3]) then return length end
return redis.call('HGET', PARTS, ARGV[2])
