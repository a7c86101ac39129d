-- Join the crawl that is there, if it is the same, or begin one.
--
-- Also sets the limits of the slots, which are the same for all workers: the last to begin is right. Forgets workers that hold nothing,
-- have no item log, have reported nothing and were not heard of for an hour.
--
-- Uses: seen.lua
-- Flags: allow-oom
-- KEYS  as in keys.lua
-- ARGV  1 id for a new crawl
--       2 nonce of the caller: a repeated call of who began the crawl is told the same again
--       3 worker
--       4 offset of the clock (microseconds; tests only)
--       5 identity: what the crawl is of, in words; one that is joined has to have the same
--       6 cap of the slots without a limit of their own (leases in flight; 0: any number)
--       7 their interval (microseconds between two leases; 0: none)
--       8.. slot, cap, interval, slot, cap, interval, ...
-- Returns {"joined", crawl's id, 1 if it was there before and 0 if the caller began it,
--          microseconds since the epoch by the crawl's clock, and by how many it is ahead of the server's}
--         {"release", the version of the crawl that is there} when it is not ours; nothing has changed
--         {"foreign", crawl's id, its identity ("": none was noted)} when it has another one; nothing has changed
--         {"forgetting", crawl's id} when a crawl is being removed, or somebody has deleted all that named it: the
--         caller finishes that, and calls again
-- After a crash: the crawl has begun, with nothing in it. The next to call joins it.

local now, ahead = clock(ARGV[4])
if #ARGV % 3 ~= 1 then return redis.error_reply('ERR wrong arguments') end
for i = 6, #ARGV, 3 do
    if not tonumber(ARGV[i]) or not tonumber(ARGV[i + 1]) then
        return redis.error_reply('ERR a limit is not a number')
    end
end
local other = other_version()
if other then return {'release', other} end
local forgetting = redis.call('HGET', CRAWL, 'forgetting')
if forgetting then return {'forgetting', forgetting} end

local crawl_id = redis.call('HGET', CRAWL, 'id')
if not crawl_id then
    if redis.call('EXISTS', seen_set(0), unpack(KEYS, 2)) > 0 then
        redis.call('HSET', CRAWL, 'forgetting', ARGV[1])
        return {'forgetting', ARGV[1]}
    end
    crawl_id = ARGV[1]
    redis.call('HSET', CRAWL, 'id', crawl_id, 'version', VERSION, 'nonce', ARGV[2], 'identity', ARGV[5], 'seen', 0, 'seen_sets', 1)
end
local identity = redis.call('HGET', CRAWL, 'identity') or ''
if identity ~= ARGV[5] then return {'foreign', crawl_id, identity} end
local resumed = redis.call('HGET', CRAWL, 'nonce') == ARGV[2] and 0 or 1

redis.call('DEL', LIMITS)
redis.call('HSET', LIMITS, '', pack_limit(tonumber(ARGV[6]), tonumber(ARGV[7])))
for i = 8, #ARGV, 3 do
    redis.call('HSET', LIMITS, ARGV[i], pack_limit(tonumber(ARGV[i + 1]), tonumber(ARGV[i + 2])))
end

local busy = {}
for _, lease in ipairs(redis.call('HVALS', LEASES)) do
    busy[holder_of(lease)] = true
end
for _, log in ipairs(redis.call('HVALS', LOGS)) do
    local _, _, _, owner = unpack_log(log)
    busy[owner] = true
end
local seen = redis.call('HGETALL', WORKERS)
for i = 1, #seen, 2 do
    if not busy[seen[i]] and tonumber(seen[i + 1]) < now - HOUR then
        if redis.call('HEXISTS', REPORTS, seen[i]) == 0 then redis.call('HDEL', WORKERS, seen[i]) end
        redis.call('HDEL', REPLIES, seen[i])
    end
end

-- The books of this crawl were closed before, by a run that is over: the end is free to be claimed again.
if unfinished() == 0 then redis.call('HDEL', CRAWL, 'finisher') end
keep_clock(now, ahead)
redis.call('HSET', WORKERS, ARGV[3], decimal(now))
return {'joined', crawl_id, resumed, now, ahead}
