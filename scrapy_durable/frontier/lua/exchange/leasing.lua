-- Leases for the worker: equal shares from the slots in the rotation; a slot that was served goes to its end. Each round leases at
-- least one element or takes at least one slot out of the rotation, so it comes to an end.

-- Read once for all slots, before the first lease.
local some_overdue, some_retried, some_paced, token, default_limit

-- How many more leases of the slot may go in flight; more than `share` when there is no limit.
local function free_places(slot, cap, share)
    if cap == 0 then return share + 1 end
    return math.max(0, cap - tonumber(redis.call('HGET', IN_FLIGHT, slot) or 0) - (flights[slot] or 0))
end

-- Lease these members of `ready`, which stand there one after the other.
local function lease_out(slot, name, members)
    local keys, records = {}, {}
    for i, member in ipairs(members) do keys[i] = string.sub(member, PREFIX + 1) end
    local elements = redis.call('HMGET', ELEMENTS, unpack(keys))
    local tries = some_retried and redis.call('HMGET', ATTEMPTS, unpack(keys)) or {}
    for i, key in ipairs(keys) do
        local attempts, failures = 0, 0
        if tries[i] then attempts, failures = unpack_tries(tries[i]) end
        token = token + 1
        records[2 * i - 1] = key
        records[2 * i] = pack_lease(token, attempts + 1, failures, 0, deadline, members[i], since, worker)
        given[#given + 1] = give(key, token, attempts + 1, failures, name, elements[i])
        count_waiting(arrival_of(members[i]), -1)
    end
    count_in_flight(slot, #keys)
    redis.call('ZREMRANGEBYLEX', READY, '[' .. members[1], '[' .. members[#members])
    redis.call('HSET', LEASES, unpack(records))
    if some_overdue then redis.call('SREM', OVERDUE, unpack(keys)) end
    if some_retried then redis.call('HDEL', ATTEMPTS, unpack(keys)) end
end

-- Lease up to `share` elements of one slot, within its cap; returns how many. It stays in the rotation if more may be leased.
-- Of one that has an interval one is leased, and then none for that long.
local function serve(slot, share)
    local name = slot_name(slot)
    local cap, interval = limit_of(slot, name, default_limit, some_paced)
    if interval > 0 then share = 1 end
    local room = free_places(slot, cap, share)
    local number = room
    if room > 0 then
        local first, behind = range_of(slot)
        local members = redis.call('ZRANGEBYLEX', READY, first, behind, 'LIMIT', 0, math.min(room, share))
        number = #members
        if number > 0 then lease_out(slot, name, members) end
    end
    if room > 0 and number > 0 and interval > 0 then
        redis.call('HSET', GAPS, slot, pack_gap(now + interval, token))
        displace(slot)
    elseif number < share or number == room then
        redis.call('ZREM', ROTATION, slot)
    else
        redis.call('ZADD', ROTATION, next_place(), slot)
    end
    return number
end

local function lease()
    if want == 0 or redis.call('EXISTS', ROTATION) == 0 then return end
    some_overdue = redis.call('SCARD', OVERDUE) > 0
    some_retried = redis.call('HLEN', ATTEMPTS) > 0
    some_paced = redis.call('HLEN', PACES) > 0
    token = tonumber(redis.call('HGET', CRAWL, 'token') or 0)
    default_limit = redis.call('HGET', LIMITS, '')
    local missing = want
    while missing > 0 do
        local slots = redis.call('ZRANGE', ROTATION, 0, math.min(missing, 1000) - 1)
        if #slots == 0 then break end
        local share = math.min(1000, math.floor(missing / #slots))
        for _, slot in ipairs(slots) do
            missing = missing - serve(tonumber(slot), share)
        end
    end
    if #given == 0 then return end
    redis.call('HSET', CRAWL, 'token', decimal(token))
    local first_end = redis.call('ZSCORE', DEADLINES, worker)
    if not first_end or tonumber(first_end) > deadline then
        redis.call('ZADD', DEADLINES, decimal(deadline), worker)
    end
end
