-- Leave the crawl's verdict for the workers that wait for it.
--
-- Flags: allow-oom
-- KEYS  as in keys.lua; behind them the verdict of the crawl (string)
-- ARGV  1 crawl's id
--       2 worker
--       3 verdict
--       4 how long to keep it (seconds)
-- Returns 1, or 0 when that worker has no claim to finish the crawl, or something is unfinished; error LOST when the crawl is
--         gone, DAMAGED when its keys do not agree
-- After a crash: it is published. Publishing again replaces it.

if not tonumber(ARGV[4]) then return redis.error_reply('ERR the time is not a number') end
if not is_joined(ARGV[1]) then return lost() end
local contradiction = damage()
if contradiction then return damaged(contradiction) end
if unfinished() > 0 or redis.call('HGET', CRAWL, 'finisher') ~= ARGV[2] then return 0 end
redis.call('SET', KEYS[FIXED + 1], ARGV[3], 'EX', ARGV[4])
return 1
