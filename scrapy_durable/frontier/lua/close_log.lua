-- Note that an item log has confirmed everything, and that its feeds are stored.
--
-- Uses: acceptances.lua
-- Flags: allow-oom
-- KEYS  as in keys.lua
-- ARGV  1 crawl's id
--       2 worker
--       3 nonce of this worker's process
--       4 name of the log; empty: it has joined none
--       5 offset of the clock (microseconds; tests only)
-- Returns {"closed"}
--         {"none"} when this process has no log (any more), {"abandoned"} when it was given up,
--         {"unconfirmed", how many tokens are}; nothing has changed then
--         error LOST when the crawl is gone, DAMAGED when its keys do not agree
-- After a crash: it is closed, or not. Closing it again gives the same answer.

local worker, nonce, name = ARGV[2], ARGV[3], ARGV[4]
local now, ahead = clock(ARGV[5])
if not is_joined(ARGV[1]) then return lost() end
local contradiction = damage_of_logs()
if contradiction then return damaged(contradiction) end

keep_clock(now, ahead)
redis.call('HSET', WORKERS, worker, decimal(now))
local log, abandoned = log_of(name, worker, nonce)
if not log then return {abandoned and 'abandoned' or 'none'} end
local unconfirmed = count_unconfirmed(log.number)
if unconfirmed > 0 then return {'unconfirmed', unconfirmed} end
redis.call('HSET', LOGS, name, pack_log(log.number, CLOSED, nonce, worker))
return {'closed'}
