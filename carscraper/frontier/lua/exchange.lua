-- Apply all that a worker has to say, and hand out leases.
--
-- Loaded twice. Plainly, Redis refuses to start it when the memory is full, so that nothing of it happens. With the flag
-- allow-oom it runs all the same: for exchanges that add no element, which is how a full server gets empty again.
--
-- The order is: end expired leases, delays and pauses; entries; landed; acks; retries; burials; returns; renewals;
-- pauses; hand out. Entries come first, so that children are in before their parent's ack; but it is all one step.
--
-- Uses: rotation.lua
-- KEYS  1-20 as in keys.lua; then the buckets of the seen set (sets of integers) that ARGV refers to by position
-- ARGV  1 crawl's id
--       2 worker
--       3 nonce of this worker's process
--       4 number of the exchange within it: counts up, and a repetition has the same; 0 is for an exchange that may
--         happen any number of times, and whose reply is not kept
--       5 length of a lease (microseconds)
--       6 attempts after which an element is buried
--       7 offset of the clock (microseconds; tests only)
--       8 leases wanted
--       9-16 how many entries, landed, acks, retries, burials, returns, renewals, pauses follow, in this order:
--       entries   key, slot, callback, rank (0 to 2^32 - 1), delay (microseconds), payload, position of the bucket
--       landed    key, token
--       acks      key, token, position of the bucket
--       retries   key, token, delay (microseconds), reason
--       burials   key, token, reason
--       returns   key, token
--       renewals  key, token
--       pauses    slot, duration (microseconds)
-- Returns {unfinished elements,
--          microseconds until the next delay or pause ends that holds something back (-1: none does),
--          leases {key, token, attempt, slot, payload, ...},
--          refused entries {key, ...},
--          stale messages {key, token, ...},
--          retries that were buried {key, ...}}
--         error LOST when the crawl is gone; error SUPERSEDED when the worker has made a later exchange already.
-- After a crash: all of it has happened, or nothing. If the reply was lost, the same number again gives the same reply,
-- without the leases that ended meanwhile; if the worker died, its leases expire.

-- Most leases reclaimed, delays ended and pauses ended in one call; the rest has its turn in the next.
local SWEEP = 1000

-- Arguments, all read before the first write.

local crawl_id, worker, nonce = ARGV[1], ARGV[2], ARGV[3]
for i = 4, 16 do
    if not tonumber(ARGV[i]) then return redis.error_reply('ERR argument ' .. i .. ' is not a number') end
end
local exchange_number, lease_length, max_attempts = tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6])
local now, want = clock(ARGV[7]), tonumber(ARGV[8])
local deadline = decimal(now + lease_length)

-- For each kind of message: how many arguments one has, and which of them are numbers.
local KINDS = {
    {7, {4, 5, 7}}, {2, {2}}, {3, {2, 3}}, {4, {2, 3}}, {3, {2}}, {2, {2}}, {2, {2}}, {2, {2}},
}
local messages, position = {}, 17
for kind, shape in ipairs(KINDS) do
    local list, width, numeric = {}, shape[1], shape[2]
    for n = 1, tonumber(ARGV[8 + kind]) do
        local message = {unpack(ARGV, position, position + width - 1)}
        if #message < width then return redis.error_reply('ERR arguments are missing') end
        for _, field in ipairs(numeric) do
            message[field] = tonumber(message[field])
            if not message[field] then return redis.error_reply('ERR a message has no number where one belongs') end
        end
        list[n] = message
        position = position + width
    end
    messages[kind] = list
end
local entries, landed, acks, retries = messages[1], messages[2], messages[3], messages[4]
local burials, returns, renewals, pauses = messages[5], messages[6], messages[7], messages[8]
if position ~= #ARGV + 1 then return redis.error_reply('ERR arguments are left over') end

if not is_joined(crawl_id) then return lost() end

-- Answering.

local leases, refused, stale, buried = {}, {}, {}, {}

local function next_due()
    local first = -1
    for _, key in ipairs({DELAYED, HELD}) do
        local head = redis.call('ZRANGE', key, 0, 0, 'WITHSCORES')
        if head[2] then
            local left = math.max(0, tonumber(head[2]) - now)
            if first < 0 or left < first then first = left end
        end
    end
    return first
end

local function reply()
    return {unfinished(), next_due(), leases, refused, stale, buried}
end

local function slot_name(slot)
    return redis.call('HGET', NAMES, 'slot#' .. slot)
end

local function give(key, token, attempt, name, record)
    local n = #leases
    leases[n + 1], leases[n + 2], leases[n + 3] = key, decimal(token), attempt
    leases[n + 4], leases[n + 5] = name, string.sub(record, PREFIX + 1)
end

redis.call('HSET', WORKERS, worker, decimal(now))
local last = exchange_number > 0 and redis.call('HGET', REPLIES, worker)
if last then
    last = cmsgpack.unpack(last)
    if last.nonce == nonce and last.number > exchange_number then
        return redis.error_reply('SUPERSEDED by a later exchange')
    end
    if last.nonce == nonce and last.number == exchange_number then
        refused, stale, buried = last.refused, last.stale, last.buried
        for i = 1, #last.given, 2 do
            local key, lease = last.given[i], redis.call('HGET', LEASES, last.given[i])
            if lease then
                local token, attempt, _, prefix = unpack_lease(lease)
                if decimal(token) == last.given[i + 1] then
                    give(key, token, attempt, slot_name((unpack_prefix(prefix))), redis.call('HGET', ELEMENTS, key))
                end
            end
        end
        return reply()
    end
end

-- Numbers for names.

local numbers = {}
local function number_of(kind, name)
    local field = kind .. ':' .. name
    if not numbers[field] then
        local number = redis.call('HGET', NAMES, field)
        if not number then
            number = redis.call('HINCRBY', NAMES, kind .. 's', 1)
            redis.call('HSET', NAMES, field, number, kind .. '#' .. number, name)
        end
        numbers[field] = tonumber(number)
    end
    return numbers[field]
end

local tally = {}
local function count(what, slot, callback)
    local field = what .. ':' .. slot .. ':' .. callback
    tally[field] = (tally[field] or 0) + 1
end

-- Changes of state.

local function queue(key, prefix)
    local slot, _, arrival = unpack_prefix(prefix)
    redis.call('ZADD', READY, 0, prefix .. key)
    count_waiting(arrival, 1)
    rouse(slot)
end

local function delay(key, prefix, due)
    local _, _, arrival = unpack_prefix(prefix)
    redis.call('ZADD', DELAYED, decimal(due), prefix .. key)
    count_waiting(arrival, 1)
end

local function bury(key, attempts, prefix, reason)
    redis.call('HSET', DEAD, key, pack_death(attempts, prefix, reason))
    redis.call('ZADD', DEATHS, decimal(now), key)
end

-- Expired leases.

for _, key in ipairs(redis.call('ZRANGEBYSCORE', DEADLINES, '-inf', decimal(now), 'LIMIT', 0, SWEEP)) do
    local _, attempt, _, prefix = unpack_lease(redis.call('HGET', LEASES, key))
    local slot = unpack_prefix(prefix)
    redis.call('HDEL', LEASES, key)
    redis.call('ZREM', DEADLINES, key)
    redis.call('ZREM', WIRE, pack_slot(slot) .. key)
    rouse(slot)
    if attempt >= max_attempts then
        bury(key, attempt, prefix, 'lease expired after ' .. attempt .. ' attempts')
    else
        redis.call('HSET', ATTEMPTS, key, attempt)
        queue(key, prefix)
    end
end

-- Delays and pauses that are over.

for _, member in ipairs(redis.call('ZRANGEBYSCORE', DELAYED, '-inf', decimal(now), 'LIMIT', 0, SWEEP)) do
    redis.call('ZREM', DELAYED, member)
    redis.call('ZADD', READY, 0, member)
    redis.call('SADD', OVERDUE, string.sub(member, PREFIX + 1))
    rouse((unpack_prefix(member)))
end
for _, slot in ipairs(redis.call('ZRANGEBYSCORE', HELD, '-inf', decimal(now), 'LIMIT', 0, SWEEP)) do
    redis.call('ZREM', HELD, slot)
    rouse(tonumber(slot))
end

-- Entries.

local arrival
local function next_arrival()
    arrival = math.max(now, (arrival or tonumber(redis.call('HGET', CRAWL, 'arrival') or 0)) + 1)
    return arrival
end

local function reschedule(key, record, rank, wait)
    local prefix = string.sub(record, 1, PREFIX)
    local slot, old_rank, arrived, callback = unpack_prefix(prefix)
    local member = prefix .. key
    if redis.call('ZREM', READY, member) == 0 then
        redis.call('ZREM', DELAYED, member)
    else
        redis.call('SREM', OVERDUE, key)
    end
    if rank < old_rank then
        prefix = pack_prefix(slot, rank, arrived, callback)
        redis.call('HSET', ELEMENTS, key, prefix .. string.sub(record, PREFIX + 1))
    end
    count_waiting(arrived, -1)
    rouse(slot)
    if wait > 0 then delay(key, prefix, now + wait) else queue(key, prefix) end
end

for _, entry in ipairs(entries) do
    local key, rank, wait, payload = entry[1], entry[4], entry[5], entry[6]
    local record = redis.call('HGET', ELEMENTS, key)
    if record then
        if redis.call('HEXISTS', LEASES, key) == 1 or redis.call('HEXISTS', DEAD, key) == 1 then
            refused[#refused + 1] = key
        else
            reschedule(key, record, rank, wait)
        end
    elseif redis.call('SISMEMBER', KEYS[entry[7]], key) == 1 then
        refused[#refused + 1] = key
    else
        local slot, callback = number_of('slot', entry[2]), number_of('callback', entry[3])
        local prefix = pack_prefix(slot, rank, next_arrival(), callback)
        redis.call('HSET', ELEMENTS, key, prefix .. payload)
        count('pushed', slot, callback)
        if wait > 0 then delay(key, prefix, now + wait) else queue(key, prefix) end
    end
end
if arrival then redis.call('HSET', CRAWL, 'arrival', decimal(arrival)) end

-- Messages about leases. What they end is gathered and removed from the keys of the leases at once.

local held = {}
local keys_held = {}
for _, list in ipairs({landed, acks, retries, burials, returns, renewals}) do
    for _, message in ipairs(list) do keys_held[#keys_held + 1] = message[1] end
end
for first = 1, #keys_held, 3000 do
    local last_one = math.min(first + 2999, #keys_held)
    for i, lease in ipairs(redis.call('HMGET', LEASES, unpack(keys_held, first, last_one))) do
        if lease then
            local token, attempt, has_landed, prefix, holder = unpack_lease(lease)
            held[keys_held[first + i - 1]] = {
                token = token, attempt = attempt, landed = has_landed, prefix = prefix, holder = holder,
            }
        end
    end
end

local function find(message)
    local lease = held[message[1]]
    if lease and lease.token == message[2] then return lease end
    stale[#stale + 1], stale[#stale + 2] = message[1], decimal(message[2])
end

local off_wire, ended, forgotten = {}, {}, {}

local function leave_wire(key, lease)
    local slot = unpack_prefix(lease.prefix)
    off_wire[#off_wire + 1] = pack_slot(slot) .. key
    rouse(slot)
end

-- The lease, which is over; nil if it is stale.
local function finish_lease(message)
    local lease = find(message)
    if lease then
        leave_wire(message[1], lease)
        held[message[1]] = nil
        ended[#ended + 1] = message[1]
    end
    return lease
end

for _, message in ipairs(landed) do
    local lease = find(message)
    if lease and lease.landed == 0 then
        leave_wire(message[1], lease)
        lease.landed = 1
        redis.call('HSET', LEASES, message[1],
            pack_lease(lease.token, lease.attempt, 1, lease.prefix, lease.holder))
    end
end

for _, message in ipairs(acks) do
    local lease = finish_lease(message)
    if lease then
        local slot, _, _, callback = unpack_prefix(lease.prefix)
        forgotten[#forgotten + 1] = message[1]
        redis.call('SADD', KEYS[message[3]], message[1])
        count('done', slot, callback)
    end
end

for _, message in ipairs(retries) do
    local lease = finish_lease(message)
    if lease and lease.attempt >= max_attempts then
        bury(message[1], lease.attempt, lease.prefix, message[4])
        buried[#buried + 1] = message[1]
    elseif lease then
        redis.call('HSET', ATTEMPTS, message[1], lease.attempt)
        if message[3] > 0 then
            delay(message[1], lease.prefix, now + message[3])
        else
            queue(message[1], lease.prefix)
        end
    end
end

for _, message in ipairs(burials) do
    local lease = finish_lease(message)
    if lease then bury(message[1], lease.attempt, lease.prefix, message[3]) end
end

for _, message in ipairs(returns) do
    local lease = finish_lease(message)
    if lease then
        if lease.attempt > 1 then redis.call('HSET', ATTEMPTS, message[1], lease.attempt - 1) end
        queue(message[1], lease.prefix)
    end
end

for _, message in ipairs(renewals) do
    if find(message) then redis.call('ZADD', DEADLINES, deadline, message[1]) end
end

call_in_pieces('HDEL', LEASES, ended, 1)
call_in_pieces('ZREM', DEADLINES, ended, 1)
call_in_pieces('ZREM', WIRE, off_wire, 1)
call_in_pieces('HDEL', ELEMENTS, forgotten, 1)

-- Pauses.

for _, pause in ipairs(pauses) do
    local slot, paused_until = number_of('slot', pause[1]), now + pause[2]
    local set_before = redis.call('HGET', PAUSED, slot)
    if not set_before or tonumber(set_before) < paused_until then
        redis.call('HSET', PAUSED, slot, decimal(paused_until))
    end
    redis.call('ZREM', TURNS, slot)
    redis.call('ZREM', HELD, slot)
    rouse(slot)
end

-- Hand out: equal shares from the slots whose turn it is; a slot that was served goes to the end of the rotation. Each
-- round gives out at least one lease or takes at least one slot out of the rotation, so it comes to an end.

wake(now)

local given = {}
local some_overdue = want > 0 and redis.call('SCARD', OVERDUE) > 0
local some_retried = want > 0 and redis.call('HLEN', ATTEMPTS) > 0
local token = want > 0 and tonumber(redis.call('HGET', CRAWL, 'token') or 0)
local default_cap = want > 0 and tonumber(redis.call('HGET', LIMITS, ''))

-- How many more leases of the slot may go on the wire; more than `share` when there is no limit.
local function free_places(slot, name, share)
    local cap = tonumber(redis.call('HGET', LIMITS, name) or default_cap)
    if cap == 0 then return share + 1 end
    return math.max(0, cap - redis.call('ZLEXCOUNT', WIRE, '[' .. pack_slot(slot), '(' .. pack_slot(slot + 1)))
end

-- Lease these members of `ready`.
local function lease_out(slot, name, members)
    local keys, records, deadlines, on_wire = {}, {}, {}, {}
    for i, member in ipairs(members) do keys[i] = string.sub(member, PREFIX + 1) end
    local elements = redis.call('HMGET', ELEMENTS, unpack(keys))
    local attempts = some_retried and redis.call('HMGET', ATTEMPTS, unpack(keys)) or {}
    for i, key in ipairs(keys) do
        local prefix = string.sub(members[i], 1, PREFIX)
        local _, _, arrived = unpack_prefix(prefix)
        local attempt = tonumber(attempts[i] or 0) + 1
        token = token + 1
        records[2 * i - 1], records[2 * i] = key, pack_lease(token, attempt, 0, prefix, worker)
        deadlines[2 * i - 1], deadlines[2 * i] = deadline, key
        on_wire[2 * i - 1], on_wire[2 * i] = 0, pack_slot(slot) .. key
        given[#given + 1], given[#given + 2] = key, decimal(token)
        count_waiting(arrived, -1)
        give(key, token, attempt, name, elements[i])
    end
    redis.call('ZREM', READY, unpack(members))
    redis.call('HSET', LEASES, unpack(records))
    redis.call('ZADD', DEADLINES, unpack(deadlines))
    redis.call('ZADD', WIRE, unpack(on_wire))
    if some_overdue then redis.call('SREM', OVERDUE, unpack(keys)) end
    if some_retried then redis.call('HDEL', ATTEMPTS, unpack(keys)) end
end

-- Give up to `share` leases of one slot, within its cap; returns how many. It stays in the rotation if it may have more.
local function serve(slot, share)
    local name = slot_name(slot)
    local room = free_places(slot, name, share)
    local number = room
    if room > 0 then
        local first, behind = '[' .. pack_slot(slot), '(' .. pack_slot(slot + 1)
        local members = redis.call('ZRANGEBYLEX', READY, first, behind, 'LIMIT', 0, math.min(room, share))
        number = #members
        if number > 0 then lease_out(slot, name, members) end
    end
    if number < share or number == room then
        redis.call('ZREM', TURNS, slot)
    else
        redis.call('ZADD', TURNS, next_turn(), slot)
    end
    return number
end

local missing = want
while missing > 0 do
    local slots = redis.call('ZRANGE', TURNS, 0, math.min(missing, 1000) - 1)
    if #slots == 0 then break end
    local share = math.min(1000, math.floor(missing / #slots))
    for _, slot in ipairs(slots) do
        missing = missing - serve(tonumber(slot), share)
    end
end

-- The books.

if #given > 0 then redis.call('HSET', CRAWL, 'token', decimal(token)) end
if #stale > 0 then redis.call('HINCRBY', CRAWL, 'stale', #stale / 2) end
for field, change in pairs(tally) do redis.call('HINCRBY', TALLY, field, change) end
store_waiting()
if unfinished() > 0 then redis.call('HDEL', CRAWL, 'claimer') end
if exchange_number > 0 then
    redis.call('HSET', REPLIES, worker, cmsgpack.pack({
        nonce = nonce, number = exchange_number, given = given, refused = refused, stale = stale, buried = buried,
    }))
end
return reply()
