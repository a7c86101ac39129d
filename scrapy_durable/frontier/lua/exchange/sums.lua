-- Numbers for names, and sums that are written once, at the end.

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

-- Elements pushed or done, and delayed or dead that are more or fewer, by slot and callback; leases that are more or fewer in flight,
-- by slot; retries and dead letters by reason.
local pushed, done, postponed, dead, flights, reasons = {}, {}, {}, {}, {}, {}

-- Most kinds of reasons that are told apart.
local MOST_REASONS = 200

local function count(sums, slot, callback, change)
    local cell = slot * 65536 + callback
    sums[cell] = (sums[cell] or 0) + (change or 1)
end

-- `what`: "retry" or "dead".
local function count_reason(what, kind)
    local field = what .. ':' .. kind
    reasons[field] = (reasons[field] or 0) + 1
end

-- Leases in flight that are more or fewer, by slot and worker.
local shares = {}

local function share_of(slot, holder)
    return slot .. ':' .. holder
end

-- `holder`: the worker whose leases they are.
local function count_in_flight(slot, holder, change)
    flights[slot] = (flights[slot] or 0) + change
    shares[share_of(slot, holder)] = (shares[share_of(slot, holder)] or 0) + change
end

-- A number that comes to nothing leaves the hash.
local function store_in_flight()
    for key, changes in pairs({[IN_FLIGHT] = flights, [SHARES] = shares}) do
        for field, change in pairs(changes) do
            if change ~= 0 and redis.call('HINCRBY', key, field, change) <= 0 then redis.call('HDEL', key, field) end
        end
    end
    flights, shares = {}, {}
end

local function store_tally(what, sums)
    for cell, number in pairs(sums) do
        if number ~= 0 then
            redis.call('HINCRBY', TALLY, what .. ':' .. math.floor(cell / 65536) .. ':' .. cell % 65536, number)
        end
    end
end

local function store_reasons()
    for field, number in pairs(reasons) do
        if redis.call('HEXISTS', REASONS, field) == 0 and redis.call('HLEN', REASONS) >= MOST_REASONS then
            field = string.match(field, '^%a+') .. ':other'
        end
        redis.call('HINCRBY', REASONS, field, number)
    end
end

local function store_sums()
    store_tally('pushed', pushed)
    store_tally('done', done)
    store_tally('delayed', postponed)
    store_tally('dead', dead)
    store_reasons()
    store_in_flight()
    store_waiting()
end
