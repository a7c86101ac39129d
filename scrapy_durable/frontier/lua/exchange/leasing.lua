-- Leases for the worker: equal shares from the slots in the rotation; a slot that was served goes to its end. Each round leases at
-- least one element or takes at least one slot out of the rotation, so it comes to an end.

-- Read once for all slots, before the first lease.
local some_overdue, some_retried, some_paced, token, default_limit

-- Microseconds for which a worker that was given less than it asked for has places kept for it: it asks again before.
local ASKS_AGAIN = 2000000
-- The other workers that are asking.
local others

-- How many leases of the slot this worker has in flight.
local function held_of(slot)
    local own = share_of(slot, worker)
    return tonumber(redis.call('HGET', SHARES, own) or 0) + (shares[own] or 0)
end

-- How many more leases of the slot may go in flight for this worker, more than `share` when there is no limit; and how many may for
-- any. Of the cap, each worker that asks may have an equal share; what the others leave of theirs is kept for them, what they
-- do not ask for is everybody's.
local function free_places(slot, cap, share)
    if cap == 0 then return share + 1, share + 1 end
    local free = math.max(0, cap - tonumber(redis.call('HGET', IN_FLIGHT, slot) or 0) - (flights[slot] or 0))
    if free == 0 or #others == 0 then return free, free end
    local fair = math.max(1, math.floor(cap / (#others + 1)))
    local fields = {}
    for i, other in ipairs(others) do fields[i] = share_of(slot, other) end
    local kept = 0
    for _, held in ipairs(get_in_pieces(SHARES, fields)) do kept = kept + math.max(0, fair - (tonumber(held or 0))) end
    return math.min(free, math.max(0, fair - held_of(slot), free - kept)), free
end

-- Lease these members of `ready`, which stand there one after the other.
local function lease_out(slot, name, members, is_spare)
    local keys, records = {}, {}
    for i, member in ipairs(members) do keys[i] = string.sub(member, PREFIX + 1) end
    local elements = redis.call('HMGET', ELEMENTS, unpack(keys))
    local tries = some_retried and redis.call('HMGET', ATTEMPTS, unpack(keys)) or {}
    for i, key in ipairs(keys) do
        local attempts, failures = 0, 0
        if tries[i] then attempts, failures = unpack_tries(tries[i]) end
        token = token + 1
        records[2 * i - 1] = key
        records[2 * i] = pack_lease(token, attempts + 1, failures, is_spare and SPARE or 0, deadline, members[i], since, worker)
        given[#given + 1] = give(key, token, attempts + 1, failures, is_spare, name, elements[i])
        count_waiting(arrival_of(members[i]), -1)
    end
    if not is_spare then count_in_flight(slot, worker, #keys) end
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
    local room, free = free_places(slot, cap, share)
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
        if room < free then mark(slot) end
    else
        redis.call('ZADD', ROTATION, next_place(), slot)
    end
    return number
end

-- Spares, to take the places of leases of the same slot that this worker has in flight: where there are others only from a long
-- queue, so that its end is not kept from them, and none where others ask and this worker has more than its share, so that it gives places back.
local LONG = 4

local function give_spares(number, name)
    local slot = tonumber(redis.call('HGET', NAMES, 'slot:' .. name) or nil)
    if not slot then return end
    local cap, interval = limit_of(slot, name, default_limit, some_paced)
    if cap == 0 or interval > 0 or (held_until(slot) or 0) > now then return end
    local held = held_of(slot)
    if held == 0 or (#others > 0 and held > math.ceil(cap / (#others + 1))) then return end
    local first, behind = range_of(slot)
    local queued = redis.call('ZLEXCOUNT', READY, first, behind)
    local long = redis.call('HLEN', WORKERS) > 1 and LONG or 1
    number = math.min(number, math.floor(queued / long), 1000)
    if number < 1 then return end
    lease_out(slot, name, redis.call('ZRANGEBYLEX', READY, first, behind, 'LIMIT', 0, number), true)
end

-- Returns how many of the leases that this worker wanted it was not given.
local function lease()
    local missing = want
    if (want == 0 or redis.call('EXISTS', ROTATION) == 0) and #spares == 0 then return missing end
    others = redis.call('ZRANGEBYSCORE', ASKING, decimal(now - ASKS_AGAIN), '+inf')
    for i = #others, 1, -1 do
        if others[i] == worker then table.remove(others, i) end
    end
    some_overdue = redis.call('SCARD', OVERDUE) > 0
    some_retried = redis.call('HLEN', ATTEMPTS) > 0
    some_paced = redis.call('HLEN', PACES) > 0
    token = tonumber(redis.call('HGET', CRAWL, 'token') or 0)
    default_limit = redis.call('HGET', LIMITS, '')
    while missing > 0 do
        local slots = redis.call('ZRANGE', ROTATION, 0, math.min(missing, 1000) - 1)
        if #slots == 0 then break end
        local share = math.min(1000, math.floor(missing / #slots))
        for _, slot in ipairs(slots) do
            missing = missing - serve(tonumber(slot), share)
        end
    end
    for _, message in ipairs(spares) do give_spares(message[1], message[2]) end
    if #given == 0 then return missing end
    redis.call('HSET', CRAWL, 'token', decimal(token))
    local first_end = redis.call('ZSCORE', DEADLINES, worker)
    if not first_end or tonumber(first_end) > deadline then
        redis.call('ZADD', DEADLINES, decimal(deadline), worker)
    end
    return missing
end

-- Whether this worker asks for more than it was given.
local function note_asking(missing)
    if missing > 0 then
        redis.call('ZADD', ASKING, decimal(now), worker)
        redis.call('ZREMRANGEBYSCORE', ASKING, '-inf', '(' .. decimal(now - ASKS_AGAIN))
    else
        redis.call('ZREM', ASKING, worker)
    end
end
