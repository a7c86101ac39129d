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
    add_up(IN_FLIGHT, flights)
    flights = {}
end

local function store_tally(what, sums)
    for cell, number in pairs(sums) do
        redis.call('HINCRBY', TALLY, what .. ':' .. math.floor(cell / 65536) .. ':' .. cell % 65536, number)
    end
end

local function store_sums()
    store_tally('pushed', pushed)
    store_tally('done', done)
    store_in_flight()
    store_waiting()
end
