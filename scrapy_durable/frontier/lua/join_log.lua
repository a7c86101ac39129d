-- Take an item log over, or begin it.
--
-- Uses: acceptances.lua
-- Flags: allow-oom
-- KEYS  as in keys.lua
-- ARGV  1 crawl's id
--       2 worker
--       3 nonce of this worker's process
--       4 name of the log
--       5 most logs that a crawl may have
--       6 offset of the clock (microseconds; tests only)
-- Returns {"joined", {token (text), ...}}: those that are remembered for it, in the order of acceptance
--         {"full"} when there are as many logs already, and this is none of them; nothing has changed
--         {"abandoned"} when it was given up; nothing has changed
--         error LOST when the crawl is gone, DAMAGED when its keys do not agree
-- After a crash: the log belongs to this process, or to whom it belonged before. Joining again gives the same answer.

local worker, nonce, name, most = ARGV[2], ARGV[3], ARGV[4], tonumber(ARGV[5])
local now, ahead = clock(ARGV[6])
if not most or #nonce ~= 16 then return redis.error_reply('ERR wrong arguments') end
if not is_joined(ARGV[1]) then return lost() end
local contradiction = damage_of_logs()
if contradiction then return damaged(contradiction) end

local number, state
local record = redis.call('HGET', LOGS, name)
if record then
    number, state = unpack_log(record)
    if state == ABANDONED then return {'abandoned'} end
elseif redis.call('HLEN', LOGS) >= most then
    return {'full'}
else
    number = redis.call('HINCRBY', CRAWL, 'logs', 1)
end
redis.call('HSET', LOGS, name, pack_log(number, OPEN, nonce, worker))
keep_clock(now, ahead)
redis.call('HSET', WORKERS, worker, decimal(now))
return {'joined', tokens_of(number)}
