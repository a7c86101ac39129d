-- Apply all that a worker has to say, and lease elements to it.
--
-- Loaded twice. Plainly, Redis refuses to start it when the memory is full, so that nothing of it happens. With the flag
-- allow-oom it runs all the same: for exchanges that add no element, which is how a full server gets empty again.
--
-- The order is: end expired leases, delays and pauses; entries; downloaded; unsent; acks; retries; dead letters; releases; renewals;
-- pauses; paces; report; leases. Entries come first, so that children are in before their parent's ack; but it is all one step.
--
-- Uses: rotation.lua
-- KEYS  1-23 as in keys.lua; then the buckets of the seen set (sets of integers) that messages refer to by position
-- ARGV  1 crawl's id
--       2 worker
--       3 nonce of this worker's process
--       4 number of the exchange within it: counts up, and a repetition has the same; 0 is for an exchange that may
--         happen any number of times, and whose reply is not kept
--       5 length of a lease (microseconds)
--       6 attempts after which an element is dead-lettered
--       7 offset of the clock (microseconds; tests only)
--       8 leases wanted
--       9-18 the messages: one string for each kind, in which they stand one after the other, packed as in FORMATS
--       19 the worker's own numbers, kept as they come in place of those before; empty: those before stay
-- Returns {unfinished elements,
--          microseconds until the next delay, pause or interval ends that holds something back (-1: none does),
--          leases: a string of key (8 bytes), token (8), attempt (2), failures (2), length of the slot's name (2), length of the
--              record (4), name, record (16 bytes that are of no use to the caller, and the payload); and so on,
--          refused entries: a string of keys,
--          stale messages: a string of keys and tokens (8 bytes each),
--          retries that became dead letters: a string of keys,
--          paces of the slots that messages named, in their order: a string of version (8 bytes) and seconds (double),
--          microseconds since the epoch by the crawl's clock, and by how many it is ahead of the server's}
--         error LOST when the crawl is gone, DAMAGED when its keys do not agree; error SUPERSEDED when the worker has made a later exchange already.
-- After a crash: all of it has happened, or nothing. If the reply was lost, the same number again gives the same reply,
-- without the leases that ended meanwhile; if the worker died, its leases expire.

-- Most delays ended and pauses ended in one call; the rest has its turn in the next.
local SWEEP = 1000

-- Arguments, all read before the first write.

local crawl_id, worker, nonce = ARGV[1], ARGV[2], ARGV[3]
if #ARGV ~= 19 then return redis.error_reply('ERR 19 arguments are needed') end
for i = 4, 8 do
    if not tonumber(ARGV[i]) then return redis.error_reply('ERR argument ' .. i .. ' is not a number') end
end
local exchange_number, lease_length, max_attempts = tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6])
local now, ahead = clock(ARGV[7])
local want = tonumber(ARGV[8])
local deadline = now + lease_length

-- Numbers are unsigned and big-endian; a text has its length (1, 2 or 4 bytes) in front. Times are microseconds.
local FORMATS = {
    '>c8I4I8I4Bc0I2c0I2c0I4c0',  -- entry: key, rank, delay, position of the bucket, key in decimal, slot, callback, payload
    '>c8I8',                     -- downloaded: key, token
    '>c8I8',                     -- unsent: key, token
    '>c8I8I4Bc0',                -- ack: key, token, position of the bucket, key in decimal
    '>c8I8I8I2c0',               -- retry: key, token, delay, reason
    '>c8I8I2c0',                 -- dead letter: key, token, reason
    '>c8I8',                     -- release: key, token
    '>c8I8',                     -- renewal: key, token
    '>I8I2c0',                   -- pause: duration, slot
    '>I8dI2c0',                  -- pace: version that it follows, interval (seconds), slot
}
local messages = {}
for kind, format in ipairs(FORMATS) do
    local list, packed = {}, ARGV[8 + kind]
    local position, length = 1, #packed
    while position <= length do
        local message = {struct.unpack(format, packed, position)}
        position = table.remove(message)
        list[#list + 1] = message
    end
    messages[kind] = list
end
local entries, downloaded, unsent, acks, retries = messages[1], messages[2], messages[3], messages[4], messages[5]
local dead_letters, releases, renewals, pauses, paces = messages[6], messages[7], messages[8], messages[9], messages[10]

if not is_joined(crawl_id) then return lost() end
local contradiction = damage()
if contradiction then return damaged(contradiction) end

-- Answering.

local leases, refused, stale, dead_lettered = {}, '', '', ''
local HEAD = 26

local function pack_held(key, token)
    return key .. struct.pack('>I8', token)
end

-- The farthest time that is told; numbers beyond 64 bits would come out as any other.
local FAR = 2 ^ 53

local function next_due()
    local first = -1
    for _, key in ipairs({DELAYED, HELD}) do
        local head = redis.call('ZRANGE', key, 0, 0, 'WITHSCORES')
        if head[2] then
            local left = math.min(math.max(0, tonumber(head[2]) - now), FAR)
            if first < 0 or left < first then first = left end
        end
    end
    return first
end

-- Version and interval (seconds) that were learned for a slot; 0 and 0 before that.
local function pace_of(slot)
    local pace = slot and redis.call('HGET', PACES, slot)
    if not pace then return 0, 0 end
    return unpack_pace(pace)
end

local function reply()
    local known = ''
    for _, pace in ipairs(paces) do
        known = known .. struct.pack('>I8d', pace_of(redis.call('HGET', NAMES, 'slot:' .. pace[3])))
    end
    return {unfinished(), next_due(), table.concat(leases), refused, stale, dead_lettered, known, now, ahead}
end

local function slot_name(slot)
    return redis.call('HGET', NAMES, 'slot#' .. slot)
end

-- Put a lease into the answer, and return its head: key, token, attempt, failures, two lengths. The record goes as it is: Lua interns every string
-- that it makes, and payloads are long and much alike.
local function give(key, token, attempt, failures, name, record)
    local head = key .. struct.pack('>I8I2I2I2I4', token, attempt, failures, #name, #record)
    leases[#leases + 1], leases[#leases + 2], leases[#leases + 3] = head, name, record
    return head
end

keep_clock(now, ahead)
redis.call('HSET', WORKERS, worker, decimal(now))
local last = exchange_number > 0 and redis.call('HGET', REPLIES, worker)
if last then
    last = cmsgpack.unpack(last)
    if last.nonce == nonce and last.number > exchange_number then
        return redis.error_reply('SUPERSEDED by a later exchange')
    end
    if last.nonce == nonce and last.number == exchange_number then
        refused, stale, dead_lettered = last.refused, last.stale, last.dead_lettered
        for i = 1, #last.given, HEAD do
            local key, token = struct.unpack('>c8I8', last.given, i)
            local lease = redis.call('HGET', LEASES, key)
            if lease then
                local current, attempt, failures, _, _, slot = unpack_lease(lease)
                if current == token then
                    give(key, token, attempt, failures, slot_name(slot), redis.call('HGET', ELEMENTS, key))
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

-- Elements pushed or done, by slot and callback; and leases that are more or fewer in flight, by slot.
local pushed, done, flights = {}, {}, {}

local function count(sums, slot, callback)
    local cell = slot * 65536 + callback
    sums[cell] = (sums[cell] or 0) + 1
end

local function count_in_flight(slot, change)
    flights[slot] = (flights[slot] or 0) + change
end

local function store_in_flight()
    for slot, change in pairs(flights) do
        if change ~= 0 and redis.call('HINCRBY', IN_FLIGHT, slot, change) <= 0 then
            redis.call('HDEL', IN_FLIGHT, slot)
        end
    end
    flights = {}
end

local function store_tally(what, sums)
    for cell, number in pairs(sums) do
        redis.call('HINCRBY', TALLY, what .. ':' .. math.floor(cell / 65536) .. ':' .. cell % 65536, number)
    end
end

-- Changes of state.

local function leave_flight(slot)
    count_in_flight(slot, -1)
    mark(slot)
end

local function queue(member)
    redis.call('ZADD', READY, 0, member)
    count_waiting(arrival_of(member), 1)
    mark((unpack_prefix(member)))
end

local function delay(member, due)
    redis.call('ZADD', DELAYED, decimal(due), member)
    count_waiting(arrival_of(member), 1)
end

local function dead_letter(key, attempts, failures, prefix, reason)
    redis.call('HSET', DEAD, key, pack_death(attempts, failures, prefix, reason))
    redis.call('ZADD', DEATHS, decimal(now), key)
end

-- Expired leases. The leases are looked through when one of a worker's may have ended: about once in the length of a
-- lease, since a new lease ends later than those that the worker has.

local function reclaim(key, lease)
    local _, attempt, failures, is_downloaded, _, slot = unpack_lease(lease)
    redis.call('HDEL', LEASES, key)
    if is_downloaded == 0 then leave_flight(slot) end
    if attempt >= max_attempts then
        dead_letter(key, attempt, failures, prefix_of(lease), 'lease expired after ' .. attempt .. ' attempts')
    else
        redis.call('HSET', ATTEMPTS, key, pack_tries(attempt, failures))
        queue(member_of(lease))
    end
end

local suspects = redis.call('ZRANGEBYSCORE', DEADLINES, '-inf', decimal(now))
if #suspects > 0 then
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

-- Delays and pauses that are over.

for _, member in ipairs(redis.call('ZRANGEBYSCORE', DELAYED, '-inf', decimal(now), 'LIMIT', 0, SWEEP)) do
    redis.call('ZREM', DELAYED, member)
    redis.call('ZADD', READY, 0, member)
    redis.call('SADD', OVERDUE, string.sub(member, PREFIX + 1))
    mark((unpack_prefix(member)))
end
for _, slot in ipairs(redis.call('ZRANGEBYSCORE', HELD, '-inf', decimal(now), 'LIMIT', 0, SWEEP)) do
    redis.call('ZREM', HELD, slot)
    mark(tonumber(slot))
end

-- Entries.

local arrival
local function next_arrival()
    arrival = math.max(now, (arrival or tonumber(redis.call('HGET', CRAWL, 'arrival') or 0)) + 1)
    return arrival
end

-- New elements are gathered, and written when all entries are read or one of them comes again.
local new_elements, new_ready = {}, {}

local function write_new()
    call_in_pieces('HSET', ELEMENTS, new_elements, 2)
    call_in_pieces('ZADD', READY, new_ready, 2)
    new_elements, new_ready = {}, {}
end

local function add(key, rank, wait, slot_named, callback_named, payload)
    local slot, callback = number_of('slot', slot_named), number_of('callback', callback_named)
    local arrived = next_arrival()
    local prefix = pack_prefix(slot, rank, arrived, callback)
    new_elements[#new_elements + 1], new_elements[#new_elements + 2] = key, prefix .. payload
    count(pushed, slot, callback)
    if wait > 0 then
        delay(prefix .. key, now + wait)
    else
        new_ready[#new_ready + 1], new_ready[#new_ready + 2] = 0, prefix .. key
        count_waiting(arrived, 1)
        mark(slot)
    end
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
    mark(slot)
    if wait > 0 then delay(prefix .. key, now + wait) else queue(prefix .. key) end
end

local function first_fields(list)
    local fields = {}
    for i, message in ipairs(list) do fields[i] = message[1] end
    return fields
end

local records = get_in_pieces(ELEMENTS, first_fields(entries))
local met = {}
for i, entry in ipairs(entries) do
    local key, rank, wait, bucket, in_decimal, slot, callback, payload = unpack(entry)
    local record = records[i]
    if met[key] then
        write_new()
        record = redis.call('HGET', ELEMENTS, key)
    end
    met[key] = true
    if record then
        if redis.call('HEXISTS', LEASES, key) == 1 or redis.call('HEXISTS', DEAD, key) == 1 then
            refused = refused .. key
        else
            reschedule(key, record, rank, wait)
        end
    elseif redis.call('SISMEMBER', KEYS[bucket], in_decimal) == 1 then
        refused = refused .. key
    else
        add(key, rank, wait, slot, callback, payload)
    end
end
write_new()
if arrival then redis.call('HSET', CRAWL, 'arrival', decimal(arrival)) end

-- Messages about leases. What they end is gathered and removed from the keys of the leases at once.

local held = {}
for _, list in ipairs({downloaded, unsent, acks, retries, dead_letters, releases, renewals}) do
    local keys_held = first_fields(list)
    for i, lease in ipairs(get_in_pieces(LEASES, keys_held)) do held[keys_held[i]] = lease end
end

-- The lease that a message names; nil if the message is stale.
local function find(message)
    local lease = held[message[1]]
    if lease and unpack_lease(lease) == message[2] then return lease end
    stale = stale .. pack_held(message[1], message[2])
end

local ended, forgotten = {}, {}

-- The lease that a message ends, then its attempt, failures, slot and callback; nil if the message is stale.
local function finish_lease(message)
    local key, lease = message[1], find(message)
    if not lease then return end
    local _, attempt, failures, is_downloaded, _, slot, _, _, callback = unpack_lease(lease)
    if is_downloaded == 0 then leave_flight(slot) end
    held[key] = nil
    ended[#ended + 1] = key
    return lease, attempt, failures, slot, callback
end

local function rewrite(key, lease, is_downloaded, ends)
    local token, attempt, failures = unpack_lease(lease)
    held[key] = pack_lease(token, attempt, failures, is_downloaded, ends, member_of(lease), holder_of(lease))
    redis.call('HSET', LEASES, key, held[key])
end

-- The slot of a lease that a message names, whose download is over now; nil if it was before, or the message is stale.
local function note_downloaded(message)
    local lease = find(message)
    if not lease then return end
    local _, _, _, is_downloaded, ends, slot = unpack_lease(lease)
    if is_downloaded == 1 then return end
    leave_flight(slot)
    rewrite(message[1], lease, 1, ends)
    return slot
end

for _, message in ipairs(downloaded) do note_downloaded(message) end

for _, message in ipairs(unsent) do
    local slot = note_downloaded(message)
    local gap = slot and redis.call('HGET', GAPS, slot)
    if gap then
        local _, last = unpack_gap(gap)
        if last == message[2] then
            redis.call('HDEL', GAPS, slot)
            displace(slot)
        end
    end
end

for _, message in ipairs(acks) do
    local lease, _, _, slot, callback = finish_lease(message)
    if lease then
        forgotten[#forgotten + 1] = message[1]
        redis.call('SADD', KEYS[message[3]], message[4])
        count(done, slot, callback)
    end
end

for _, message in ipairs(retries) do
    local lease, attempt, failures = finish_lease(message)
    if lease and attempt >= max_attempts then
        dead_letter(message[1], attempt, failures + 1, prefix_of(lease), message[4])
        dead_lettered = dead_lettered .. message[1]
    elseif lease then
        redis.call('HSET', ATTEMPTS, message[1], pack_tries(attempt, failures + 1))
        if message[3] > 0 then
            delay(member_of(lease), now + message[3])
        else
            queue(member_of(lease))
        end
    end
end

for _, message in ipairs(dead_letters) do
    local lease, attempt, failures = finish_lease(message)
    if lease then dead_letter(message[1], attempt, failures, prefix_of(lease), message[3]) end
end

for _, message in ipairs(releases) do
    local lease, attempt, failures = finish_lease(message)
    if lease then
        if attempt > 1 then redis.call('HSET', ATTEMPTS, message[1], pack_tries(attempt - 1, failures)) end
        queue(member_of(lease))
    end
end

for _, message in ipairs(renewals) do
    local lease = find(message)
    if lease then
        local _, _, _, is_downloaded = unpack_lease(lease)
        rewrite(message[1], lease, is_downloaded, deadline)
    end
end

call_in_pieces('HDEL', LEASES, ended, 1)
call_in_pieces('HDEL', ELEMENTS, forgotten, 1)
store_in_flight()

-- Pauses, and the intervals that were learned.

for _, pause in ipairs(pauses) do
    local slot = number_of('slot', pause[2])
    local ends, set_before = now + pause[1], redis.call('HGET', PAUSED, slot)
    if not set_before or tonumber(set_before) < ends then redis.call('HSET', PAUSED, slot, decimal(ends)) end
    displace(slot)
end

for _, pace in ipairs(paces) do
    local slot = number_of('slot', pace[3])
    if pace_of(slot) == pace[1] then redis.call('HSET', PACES, slot, pack_pace(pace[1] + 1, pace[2])) end
end

if #ARGV[19] > 0 then redis.call('HSET', REPORTS, worker, ARGV[19]) end

-- Lease: equal shares from the slots whose turn it is; a slot that was served goes to the end of the rotation. Each
-- round gives out at least one lease or takes at least one slot out of the rotation, so it comes to an end.

wake(now)

local given = {}
local some_overdue = want > 0 and redis.call('SCARD', OVERDUE) > 0
local some_retried = want > 0 and redis.call('HLEN', ATTEMPTS) > 0
local token = want > 0 and tonumber(redis.call('HGET', CRAWL, 'token') or 0)
local some_paced = want > 0 and redis.call('HLEN', PACES) > 0
local default_limit = want > 0 and redis.call('HGET', LIMITS, '')

-- Returns a slot's cap and the interval that holds for it (microseconds; 0: none).
local function limit_of(slot, name)
    local cap, interval = unpack_limit(redis.call('HGET', LIMITS, name) or default_limit)
    if some_paced then
        local _, learned = pace_of(slot)
        interval = math.max(interval, math.floor(learned * 1000000 + 0.5))
    end
    return cap, interval
end

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
        records[2 * i] = pack_lease(token, attempts + 1, failures, 0, deadline, members[i], worker)
        given[#given + 1] = give(key, token, attempts + 1, failures, name, elements[i])
        count_waiting(arrival_of(members[i]), -1)
    end
    count_in_flight(slot, #keys)
    redis.call('ZREMRANGEBYLEX', READY, '[' .. members[1], '[' .. members[#members])
    redis.call('HSET', LEASES, unpack(records))
    if some_overdue then redis.call('SREM', OVERDUE, unpack(keys)) end
    if some_retried then redis.call('HDEL', ATTEMPTS, unpack(keys)) end
end

-- Give up to `share` leases of one slot, within its cap; returns how many. It stays in the rotation if it may have more.
-- One that has an interval gives one, and then nothing for that long.
local function serve(slot, share)
    local name = slot_name(slot)
    local cap, interval = limit_of(slot, name)
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

local missing = want
while missing > 0 do
    local slots = redis.call('ZRANGE', ROTATION, 0, math.min(missing, 1000) - 1)
    if #slots == 0 then break end
    local share = math.min(1000, math.floor(missing / #slots))
    for _, slot in ipairs(slots) do
        missing = missing - serve(tonumber(slot), share)
    end
end

-- The books.

wake(now)
if #given > 0 then
    redis.call('HSET', CRAWL, 'token', decimal(token))
    local first_end = redis.call('ZSCORE', DEADLINES, worker)
    if not first_end or tonumber(first_end) > deadline then
        redis.call('ZADD', DEADLINES, decimal(deadline), worker)
    end
end
if #stale > 0 then redis.call('HINCRBY', CRAWL, 'stale', #stale / 16) end
store_tally('pushed', pushed)
store_tally('done', done)
store_in_flight()
store_waiting()
if unfinished() > 0 then redis.call('HDEL', CRAWL, 'finisher') end
if exchange_number > 0 then
    redis.call('HSET', REPLIES, worker, cmsgpack.pack({
        nonce = nonce, number = exchange_number,
        given = table.concat(given), refused = refused, stale = stale, dead_lettered = dead_lettered,
    }))
end
return reply()
