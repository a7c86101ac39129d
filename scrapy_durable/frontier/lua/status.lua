-- Every count of the crawl, at one moment. Reads only.
--
-- Walks along the leases, the counts of slots and callbacks, the slots with a request in flight, and bounded numbers of delayed elements
-- whose time has come and of slots that are held back. What it costs does not grow with what is queued or delayed.
--
-- Uses: rotation.lua limits.lua acceptances.lua held_leases.lua
-- Flags: no-writes
-- KEYS  as in keys.lua
-- ARGV  1 offset of the clock (microseconds; tests only)
--       2 most leases to return
-- Returns {} when there is no crawl, else
--         {crawl's id,
--          cells {slot, callback, queued, delayed, leased, dead, done, ...},
--          elements past due,
--          age of the oldest that waits (seconds; -1: none waits),
--          workers {name, leases held, microseconds since the epoch when it was last heard of, its own numbers as it
--              wrote them ("": none), ...},
--          stale messages,
--          identity of the crawl ("": none was noted),
--          microseconds since the epoch by the crawl's clock,
--          how often {"retry:<kind of reason>" or "dead:<kind of reason>", number (text), ...},
--          slots that wait, at most 1000 of each kind {slot, why ("pause", "interval" or "cap"), microseconds since the epoch
--              when that is over (0: not known), reason of the pause, cap, interval (microseconds), leases in flight, ...},
--          slots with something in flight, at most 1000 {slot, cap, interval (microseconds), leases in flight, ...},
--          the oldest leases, as in held_leases.lua,
--          item logs, as in acceptances.lua}
-- Error RELEASE when the crawl is of another version.

local other = other_version()
if other then return of_other_release(other) end
local now = clock(ARGV[1])
local crawl_id = redis.call('HGET', CRAWL, 'id')
if not crawl_id then return {} end

local cells = {}
local function cell(slot, callback)
    local name = slot .. ':' .. callback
    cells[name] = cells[name] or {slot, callback, 0, 0, 0, 0, 0}
    return cells[name]
end
local QUEUED, DELAYED_ONES, LEASED, DEAD_ONES, DONE = 3, 4, 5, 6, 7

local tally = redis.call('HGETALL', TALLY)
for i = 1, #tally, 2 do
    local what, slot, callback = string.match(tally[i], '^(%a+):(%d+):(%d+)$')
    local number, one = tonumber(tally[i + 1]), cell(slot, callback)
    local state = what == 'done' and DONE or what == 'delayed' and DELAYED_ONES or what == 'dead' and DEAD_ONES
    if state then
        one[QUEUED] = one[QUEUED] - number
        one[state] = one[state] + number
    else
        one[QUEUED] = one[QUEUED] + number
    end
end

local function move(prefix, from, to)
    local slot, _, _, callback = unpack_prefix(prefix)
    local one = cell(slot, callback)
    one[from] = one[from] - 1
    one[to] = one[to] + 1
end

local holds = {}
local leased = redis.call('HGETALL', LEASES)
for i = 2, #leased, 2 do
    local worker = holder_of(leased[i])
    holds[worker] = (holds[worker] or 0) + 1
    move(prefix_of(leased[i]), QUEUED, LEASED)
end
-- As many as an exchange would queue.
local MOST_DUE = 1000
local due = redis.call('ZRANGEBYSCORE', DELAYED, '-inf', decimal(now), 'LIMIT', 0, MOST_DUE)
for _, member in ipairs(due) do move(member, DELAYED_ONES, QUEUED) end
local past_due = redis.call('SCARD', OVERDUE) + redis.call('ZCOUNT', DELAYED, '-inf', decimal(now))

local rows = {}
for _, one in pairs(cells) do
    one[1] = redis.call('HGET', NAMES, 'slot#' .. one[1])
    one[2] = redis.call('HGET', NAMES, 'callback#' .. one[2])
    for _, value in ipairs(one) do rows[#rows + 1] = value end
end

local oldest = -1
local first = redis.call('ZRANGE', ARRIVALS, 0, 0)[1]
if first then oldest = math.max(0, math.floor(now / 1000000) - tonumber(first)) end

local workers = {}
local seen = redis.call('HGETALL', WORKERS)
for i = 1, #seen, 2 do
    local report = redis.call('HGET', REPORTS, seen[i])
    if report or holds[seen[i]] or tonumber(seen[i + 1]) >= now - HOUR then
        local n = #workers
        workers[n + 1], workers[n + 2], workers[n + 3] = seen[i], holds[seen[i]] or 0, seen[i + 1]
        workers[n + 4] = report or ''
    end
end

-- Why slots that have something ready are not leased now.
local MOST_WAITS = 1000
local waits, waiting_already = {}, {}
local usual = redis.call('HGET', LIMITS, '') or pack_limit(0, 0)

local function note_wait(slot, why, ends, reason)
    local name = redis.call('HGET', NAMES, 'slot#' .. slot)
    local cap, interval = limit_of(slot, name, usual, true)
    local n = #waits
    waits[n + 1], waits[n + 2], waits[n + 3], waits[n + 4] = name, why, ends, reason
    waits[n + 5], waits[n + 6], waits[n + 7] = cap, interval, tonumber(redis.call('HGET', IN_FLIGHT, slot) or 0)
    waiting_already[slot] = true
end

for _, slot in ipairs(redis.call('ZRANGEBYSCORE', HELD, '(' .. decimal(now), '+inf', 'LIMIT', 0, MOST_WAITS)) do
    local pause, gap = redis.call('HGET', PAUSED, slot), redis.call('HGET', GAPS, slot)
    local pause_ends, reason = 0, ''
    if pause then pause_ends, reason = unpack_pause(pause) end
    local gap_ends = gap and (unpack_gap(gap)) or 0
    if pause_ends >= gap_ends then
        note_wait(slot, 'pause', pause_ends, reason)
    else
        note_wait(slot, 'interval', gap_ends, '')
    end
end

local flights, uses = redis.call('HGETALL', IN_FLIGHT), {}
for i = 1, #flights, 2 do
    local slot = flights[i]
    local name = redis.call('HGET', NAMES, 'slot#' .. slot)
    local cap, interval = limit_of(slot, name, usual, true)
    local n = #uses
    if n < 4 * MOST_WAITS then
        uses[n + 1], uses[n + 2], uses[n + 3], uses[n + 4] = name, cap, interval, tonumber(flights[i + 1])
    end
    if cap > 0 and tonumber(flights[i + 1]) >= cap and #waits < 14 * MOST_WAITS and not waiting_already[slot]
        and has_ready(tonumber(slot)) then
        note_wait(slot, 'cap', 0, '')
    end
end

local stale, identity = tonumber(redis.call('HGET', CRAWL, 'stale') or 0), redis.call('HGET', CRAWL, 'identity') or ''
return {crawl_id, rows, past_due, oldest, workers, stale, identity, now, redis.call('HGETALL', REASONS), waits, uses,
    rows_of_leases(leased, tonumber(ARGV[2])), rows_of_logs()}
