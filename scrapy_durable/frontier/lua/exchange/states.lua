-- An element's changes of state, and times that are over: leases, delays, pauses.

-- Most delays ended and pauses ended in one call; the next one does the rest.
local MOST_AT_ONCE = 1000

local function leave_flight(slot, lease)
    count_in_flight(slot, holder_of(lease), -1)
    mark(slot)
end

local function queue(member)
    redis.call('ZADD', READY, 0, member)
    count_waiting(arrival_of(member), 1)
    mark((unpack_prefix(member)))
end

local function delay(member, due)
    redis.call('ZADD', DELAYED, decimal(due), member)
    local slot, _, arrived, callback = unpack_prefix(member)
    count_waiting(arrived, 1)
    count(postponed, slot, callback)
end

local function dead_letter(key, attempts, failures, prefix, reason, kind)
    redis.call('HSET', DEAD, key, pack_death(attempts, failures, prefix, reason))
    redis.call('ZADD', DEATHS, decimal(now), key)
    local slot, _, _, callback = unpack_prefix(prefix)
    count(dead, slot, callback)
    count_reason('dead', kind)
end

local function reclaim(key, lease)
    local _, attempt, failures, is_downloaded, _, slot = unpack_lease(lease)
    redis.call('HDEL', LEASES, key)
    if is_downloaded == 0 then leave_flight(slot, lease) end
    if is_downloaded == SPARE then attempt = attempt - 1 end -- nobody has tried it
    if attempt >= max_attempts then
        local reason = 'lease expired after ' .. attempt .. ' attempts'
        dead_letter(key, attempt, failures, prefix_of(lease), reason, 'lease expired after N attempts')
    else
        redis.call('HSET', ATTEMPTS, key, pack_tries(attempt, failures))
        queue(member_of(lease))
    end
end

-- The leases are read when one of a worker's may have ended: about once in the length of a lease, since a new lease ends later
-- than those that the worker has.
local function end_expired_leases()
    local suspects = redis.call('ZRANGEBYSCORE', DEADLINES, '-inf', decimal(now))
    if #suspects == 0 then return end
    local first_end = {}
    for _, holder in ipairs(suspects) do first_end[holder] = math.huge end
    local all = redis.call('HGETALL', LEASES)
    for i = 1, #all, 2 do
        local holder = holder_of(all[i + 1])
        if first_end[holder] then
            local _, _, _, _, ends = unpack_lease(all[i + 1])
            if ends <= now then
                reclaim(all[i], all[i + 1])
            else
                first_end[holder] = math.min(first_end[holder], ends)
            end
        end
    end
    for holder, ends in pairs(first_end) do
        if ends == math.huge then
            redis.call('ZREM', DEADLINES, holder)
        else
            redis.call('ZADD', DEADLINES, decimal(ends), holder)
        end
    end
end

local function end_delays_and_pauses()
    for _, member in ipairs(redis.call('ZRANGEBYSCORE', DELAYED, '-inf', decimal(now), 'LIMIT', 0, MOST_AT_ONCE)) do
        redis.call('ZREM', DELAYED, member)
        redis.call('ZADD', READY, 0, member)
        redis.call('SADD', OVERDUE, string.sub(member, PREFIX + 1))
        local slot, _, _, callback = unpack_prefix(member)
        count(postponed, slot, callback, -1)
        mark(slot)
    end
    for _, slot in ipairs(redis.call('ZRANGEBYSCORE', HELD, '-inf', decimal(now), 'LIMIT', 0, MOST_AT_ONCE)) do
        redis.call('ZREM', HELD, slot)
        mark(tonumber(slot))
    end
end
