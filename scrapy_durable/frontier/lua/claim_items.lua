-- Have items be one log's that repeat each other in the logs of several workers: who asks first has them.
--
-- Uses: acceptances.lua
-- KEYS  as in keys.lua, and behind them, for each item, the hash that it belongs to: what items have in common (12 bytes)
--       to the number of the log that has the first of them
-- ARGV  1 crawl's id
--       2 worker
--       3 nonce of this worker's process
--       4 name of the log; empty: it has joined none
--       5.. what each item has in common with those that it repeats (12 bytes)
-- Returns {"claimed", for each item 1 when it is this log's, 0 when it is another's, ...}
--         {"none"} when this process has no log (any more), {"abandoned"} when it was given up; nothing has changed then
--         error LOST when the crawl is gone, DAMAGED when its keys do not agree
-- After a crash: some are this log's, or all. Asking again gives the same answer.

if not is_joined(ARGV[1]) then return lost() end
local contradiction = damage_of_logs()
if contradiction then return damaged(contradiction) end
local log, abandoned = log_of(ARGV[4], ARGV[2], ARGV[3])
if not log then return {abandoned and 'abandoned' or 'none'} end

local number = tostring(log.number)
local reply = {'claimed'}
for i = 5, #ARGV do
    local bucket = KEYS[FIXED + i - 4]
    local is_ours = redis.call('HSETNX', bucket, ARGV[i], number) == 1 or redis.call('HGET', bucket, ARGV[i]) == number
    reply[i - 3] = is_ours and 1 or 0
end
return reply
