-- The keys of a crawl, and how its records are written down. Put in front of every script.
--
-- All keys share the hash tag `{prefix}`, and every script gets all of these, in this order; scripts that touch
-- claims to items or a verdict get those keys behind them. The sets of the seen set are named in seen.lua. Times are microseconds since the epoch by the server's clock.
--
--  1 crawl      hash    id, version (of the state, see VERSION), identity (what the crawl is of, in words), nonce (of who began it), token, arrival, turn (last ones given), stale (messages refused),
--                       finisher (worker that may finish it), forgetting (id of a crawl that is being removed)
--                       logs (how many have joined), acceptance (number of the last one), unconfirmed (how many are in "accepted")
--                       clock (the latest time that was set by), ahead (by how much that is ahead of the server's clock)
--                       seen (how many are done), seen_sets (how many sets they are in, see seen.lua)
--  2 names      hash    "slot:<name>" and "callback:<name>" to their numbers, "slot#<number>" and so on back to names
--  3 elements   hash    key of every element that is not done, to its prefix and payload
--  4 attempts   hash    key of a waiting element that was leased before, to how often, and how many of these leases ended in a retry
--  5 ready      zset    lexicographic: prefix and key of what is queued; the head of a slot is its first member
--  6 delayed    zset    prefix and key of what is delayed, by the time that it waits for
--  7 overdue    set     keys in `ready` whose time was set and has come
--  8 leases     hash    key of what is leased, to token, attempt, failures, downloaded, deadline, prefix, key, since when, and worker
--  9 deadlines  zset    workers that may hold leases, by a time before which none of these leases ends
-- 10 in_flight  hash    slot to how many of its leases are in flight: those in `leases` that are not downloaded
-- 11 rotation   zset    slots in the rotation, by their turn
-- 12 held       zset    slots with something ready that are paused or in an interval, by the end of that
-- 13 paused     hash    slot to the end of its pause, and why it is paused
-- 14 dead       hash    key of what is dead, to attempts, failures, prefix and reason
-- 15 deaths     zset    key of what is dead, by the time of death
-- 16 tally      hash    "pushed:<slot>:<callback>" to how many; "done:", "delayed:" and "dead:" likewise
-- 17 ages       hash    second of arrival to how many of the elements that arrived in it are waiting
-- 18 workers    hash    worker to when it was last heard of
-- 19 replies    hash    worker to the number of its last exchange and what is needed to answer it again
-- 20 limits     hash    slot's name to its cap and interval; "" to those of all others
-- 21 paces      hash    slot to the interval that was learned for it, and its version
-- 22 gaps       hash    slot to the end of the interval after its last lease, and the token of that
-- 23 reports    hash    worker to its own numbers, as it wrote them; stays when the worker is gone
-- 24 logs       hash    name of an item log to its number (from 1), state, the worker that joined it last and the nonce of that; none leaves it
-- 25 accepted   zset    tokens that a log has not confirmed, by the number of the log and the order of acceptance
-- 26 reasons    hash    "retry:<kind of reason>" and "dead:<kind of reason>" to how often since the crawl began
-- 27 arrivals   zset    the seconds that `ages` has, by themselves: the first is that of the oldest that waits
-- 28 shares     hash    "<slot>:<worker>" to how many of the slot's leases in flight are the worker's
-- 29 asking     zset    workers that were given less than they asked for, by when that was
-- 30 parts      hash    name to what a worker has left for the end of the crawl
--
-- A slot that may have something ready is in exactly one place: in `rotation`, in `held`, or nowhere because it is at its
-- cap, until one of its leases is no longer in flight. So its pause and its turn never get in each other's way.
--
-- A key of an element has 8 bytes, big-endian, signed. A Lua number holds only 53 bits, so they stay strings; the seen set
-- needs them as decimal integers, which the caller sends beside them.

local CRAWL, NAMES, ELEMENTS, ATTEMPTS, READY, DELAYED = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6]
local OVERDUE, LEASES, DEADLINES, IN_FLIGHT, ROTATION, HELD = KEYS[7], KEYS[8], KEYS[9], KEYS[10], KEYS[11], KEYS[12]
local PAUSED, DEAD, DEATHS, TALLY, AGES = KEYS[13], KEYS[14], KEYS[15], KEYS[16], KEYS[17]
local WORKERS, REPLIES, LIMITS, PACES, GAPS = KEYS[18], KEYS[19], KEYS[20], KEYS[21], KEYS[22]
local REPORTS, LOGS, ACCEPTED, REASONS, ARRIVALS = KEYS[23], KEYS[24], KEYS[25], KEYS[26], KEYS[27]
local SHARES, ASKING, PARTS = KEYS[28], KEYS[29], KEYS[30]
local FIXED = 30

-- The version of all that is kept here, payloads included: raised by one with each change of it. A crawl of another one is refused,
-- so the key `crawl` with its fields `id` and `version` is the same in every version. One that has none is of version 0.
local VERSION = '8'

local HOUR = 3600 * 1000000
local DECADE = 10 * 365 * 24 * HOUR

-- The prefix of an element: slot (3 bytes), rank (4), arrival (7), callback (2); big-endian, so that bytes sort as
-- numbers. Rank is 2^31 - 1 minus the priority: the best comes first.
local PREFIX = 16

local function pack_prefix(slot, rank, arrival, callback)
    return struct.pack('>I3I4I7I2', slot, rank, arrival, callback)
end

-- Returns slot, rank, arrival, callback.
local function unpack_prefix(prefix)
    return struct.unpack('>I3I4I7I2', prefix)
end

-- From where to where the members of a slot stand in `ready`.
local function range_of(slot)
    return '[' .. struct.pack('>I3', slot), '(' .. struct.pack('>I3', slot + 1)
end

-- Arrival, out of a prefix or a member of `ready`.
local function arrival_of(prefix)
    return (struct.unpack('>I7', prefix, 8))
end

-- How often an element was leased, and how many of these leases ended in a retry: 65,535 each, at most.
local function pack_tries(attempts, failures)
    return struct.pack('>I2I2', attempts, failures)
end

-- Returns attempts, failures.
local function unpack_tries(tries)
    return struct.unpack('>I2I2', tries)
end

local function pack_time(time)
    return struct.pack('>I7', time)
end

-- `downloaded`: 0 in flight, 1 not any more, 2 spare: not yet. `member` is the prefix and the key, as they stand in `ready`; `since` is packed.
local function pack_lease(token, attempt, failures, downloaded, deadline, member, since, worker)
    return struct.pack('>I7I2I2BI7', token, attempt, failures, downloaded, deadline) .. member .. since .. worker
end

-- Returns token, attempt, failures, downloaded (0 to 2), deadline, slot, rank, arrival, callback.
local function unpack_lease(lease)
    return struct.unpack('>I7I2I2BI7I3I4I7I2', lease)
end

local function member_of(lease)
    return string.sub(lease, 20, 27 + PREFIX)
end

local function prefix_of(lease)
    return string.sub(lease, 20, 19 + PREFIX)
end

-- When it was leased, packed.
local function since_of(lease)
    return string.sub(lease, 28 + PREFIX, 34 + PREFIX)
end

local function holder_of(lease)
    return string.sub(lease, 35 + PREFIX)
end

local function pack_pause(ends, reason)
    return pack_time(ends) .. reason
end

-- Returns the end, reason.
local function unpack_pause(pause)
    return (struct.unpack('>I7', pause)), string.sub(pause, 8)
end

local function pack_death(attempts, failures, prefix, reason)
    return pack_tries(attempts, failures) .. prefix .. reason
end

-- Returns attempts, failures, prefix, reason.
local function unpack_death(death)
    local attempts, failures = unpack_tries(death)
    return attempts, failures, string.sub(death, 5, 4 + PREFIX), string.sub(death, 5 + PREFIX)
end

-- `interval`: microseconds between two leases, at least.
local function pack_limit(cap, interval)
    return struct.pack('>I4I7', cap, interval)
end

-- Returns cap, interval.
local function unpack_limit(limit)
    return struct.unpack('>I4I7', limit)
end

-- `interval`: seconds, kept as they came, since the caller compares them.
local function pack_pace(version, interval)
    return struct.pack('>I7d', version, interval)
end

-- Returns version, interval.
local function unpack_pace(pace)
    return struct.unpack('>I7d', pace)
end

local function pack_gap(ends, token)
    return struct.pack('>I7I7', ends, token)
end

-- Returns the end, token.
local function unpack_gap(gap)
    return struct.unpack('>I7I7', gap)
end

-- `state` of a log: 0 open, 1 closed, 2 abandoned. A nonce has 16 characters.
local OPEN, CLOSED, ABANDONED = 0, 1, 2

local function pack_log(number, state, nonce, worker)
    return struct.pack('>I2Bc16', number, state, nonce) .. worker
end

-- Returns number, state, nonce, worker.
local function unpack_log(log)
    local number, state, nonce = struct.unpack('>I2Bc16', log)
    return number, state, nonce, string.sub(log, 20)
end

-- The score of a token in `accepted`: the log's number, at most 1000, and the order of acceptance. It stays below 2^53, so that
-- it is exact.
local ACCEPTANCES = 2 ^ 43

local function score_of(log, acceptance)
    return string.format('%.0f', log * ACCEPTANCES + acceptance)
end

-- The crawl's time, and by how much it is ahead of the server's. It never goes back: where the server's clock was set back, it
-- counts on from where it was, until that clock has caught up. A time that is years ahead was not set by a crawl.
-- `offset` is added to the server's time; only tests set it.
local function clock(offset)
    local time = redis.call('TIME')
    local now = tonumber(time[1]) * 1000000 + tonumber(time[2]) + tonumber(offset)
    local last = tonumber(redis.call('HGET', CRAWL, 'clock') or 0) or 0
    if now >= last or last > now + DECADE then return now, 0 end
    local ahead = tonumber(redis.call('HGET', CRAWL, 'ahead') or 0) or 0
    if not (ahead >= last - now and ahead < DECADE) then ahead = last - now end
    return now + ahead, ahead
end

-- `tostring` keeps 14 digits; times and tokens have 16.
local function decimal(number)
    return string.format('%.0f', number)
end

-- Keep the crawl's time with the crawl; whoever sets a time by it has to.
local function keep_clock(now, ahead)
    redis.call('HSET', CRAWL, 'clock', decimal(now), 'ahead', decimal(ahead))
end

local function is_joined(crawl_id)
    return redis.call('HGET', CRAWL, 'id') == crawl_id
end

-- The version of the crawl that is there, if it is not ours; "?" for one that is no number; nil when it is ours, or when there is none.
local function other_version()
    local crawl = redis.call('HMGET', CRAWL, 'id', 'version')
    if crawl[1] and crawl[2] ~= VERSION then return string.match(crawl[2] or '0', '^%d+$') or '?' end
end

-- The error that the scripts which need no `begin` answer with.
local function of_other_release(version)
    return redis.error_reply('RELEASE ' .. version)
end

local function lost()
    return redis.error_reply('LOST the crawl is gone')
end

-- Elements queued, delayed or leased.
local function unfinished()
    return redis.call('HLEN', ELEMENTS) - redis.call('HLEN', DEAD)
end

-- What in the keys contradicts the rest, so that the crawl would wait for ever or end too early; nil when nothing does. Every script
-- leaves them in agreement: so somebody else has deleted or changed one. Takes the same time for any number of elements.
local function damage()
    local elements, dead, leased = redis.call('HLEN', ELEMENTS), redis.call('HLEN', DEAD), redis.call('HLEN', LEASES)
    local ready, delayed = redis.call('ZCARD', READY), redis.call('ZCARD', DELAYED)
    if elements ~= ready + delayed + leased + dead then
        return elements .. ' requests are kept, but ' .. ready .. ' are queued, ' .. delayed .. ' delayed, ' .. leased
            .. ' leased and ' .. dead .. ' dead'
    end
    if redis.call('ZCARD', DEATHS) ~= dead then return 'the dead letters are not those of the list of deaths' end
    if elements > 0 and redis.call('EXISTS', NAMES) == 0 then return 'the names of slots and callbacks are gone' end
    if leased > 0 and redis.call('ZCARD', DEADLINES) == 0 then return 'the deadlines of the leases are gone' end
    if redis.call('HEXISTS', LIMITS, '') == 0 then return 'the limits of the slots are gone' end
    local seen = redis.call('HMGET', CRAWL, 'seen', 'seen_sets')
    if not tonumber(seen[1]) or not tonumber(seen[2]) then return 'how much is seen is gone' end
    if ready > 0 and leased == 0 and redis.call('ZCARD', ROTATION) == 0 and redis.call('ZCARD', HELD) == 0 then
        return 'requests are queued, but no slot has its turn'
    end
end

local function damaged(what)
    return redis.error_reply('DAMAGED ' .. what)
end

-- The values of these fields of a hash, in order, false for one that is not there; for any number of fields.
local function get_in_pieces(key, fields)
    local values = {}
    for first = 1, #fields, 3000 do
        local piece = redis.call('HMGET', key, unpack(fields, first, math.min(first + 2999, #fields)))
        for i, value in ipairs(piece) do values[first + i - 1] = value end
    end
    return values
end

-- Call a command with a long list of arguments, in pieces that fit Lua's stack; `width` arguments belong together.
local function call_in_pieces(command, key, list, width)
    local size = 3000 - 3000 % width
    for first = 1, #list, size do
        redis.call(command, key, unpack(list, first, math.min(first + size - 1, #list)))
    end
end
