-- Ask for the right to finish the crawl.
--
-- The claim is a lease: it lapses when its holder is not heard of for the length of one. A new claim withdraws the verdict
-- of an earlier end of the same crawl.
--
-- Flags: allow-oom
-- KEYS  as in keys.lua; behind them the verdict of the crawl (string)
-- ARGV  1 crawl's id
--       2 worker
--       3 length of a lease (microseconds)
--       4 offset of the clock (microseconds; tests only)
-- Returns 1 when the worker has the claim, else 0; error LOST when the crawl is gone, DAMAGED when its keys do not agree
-- After a crash: the claim stands until it lapses. Asking again gives the same answer.

local length = tonumber(ARGV[3])
local now, ahead = clock(ARGV[4])
if not length then return redis.error_reply('ERR the length is not a number') end
if not is_joined(ARGV[1]) then return lost() end
local contradiction = damage()
if contradiction then return damaged(contradiction) end
keep_clock(now, ahead)
redis.call('HSET', WORKERS, ARGV[2], decimal(now))
if unfinished() > 0 then
    redis.call('HDEL', CRAWL, 'finisher')
    return 0
end
local finisher = redis.call('HGET', CRAWL, 'finisher')
if finisher == ARGV[2] then return 1 end
if finisher then
    local last_seen = redis.call('HGET', WORKERS, finisher)
    if last_seen and tonumber(last_seen) + length > now then return 0 end
end
redis.call('DEL', KEYS[FIXED + 1])
redis.call('HSET', CRAWL, 'finisher', ARGV[2])
return 1
