-- Leave the crawl's verdict for the workers that wait for it.
--
-- Flags: allow-oom
-- KEYS  as in keys.lua; behind them the verdict of the crawl (string)
-- ARGV  1 crawl's id
--       2 verdict
--       3 how long to keep it (seconds)
-- Returns 1; error LOST when the crawl is gone
-- After a crash: it is published. Publishing again replaces it.

if not tonumber(ARGV[3]) then return redis.error_reply('ERR the time is not a number') end
if not is_joined(ARGV[1]) then return lost() end
redis.call('SET', KEYS[FIXED + 1], ARGV[2], 'EX', ARGV[3])
return 1
