-- Leave something for the end of the crawl, in place of what was left under that name.
--
-- Flags: allow-oom
-- KEYS  as in keys.lua
-- ARGV  1 crawl's id
--       2 name
--       3 what is left
-- Returns 1; error LOST when the crawl is gone
-- After a crash: it is left. Leaving it again changes nothing.

if not is_joined(ARGV[1]) then return lost() end
redis.call('HSET', PARTS, ARGV[2], ARGV[3])
return 1
