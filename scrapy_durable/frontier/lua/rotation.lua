-- Which slots have their turn, and how old the waiting are. Put in front of the scripts that make elements wait.

-- Slots that may have got something ready, or a free place.
local marked = {}

local function mark(slot)
    marked[slot] = true
end

local function has_ready(slot)
    local first, behind = range_of(slot)
    return #redis.call('ZRANGEBYLEX', READY, first, behind, 'LIMIT', 0, 1) > 0
end

local function next_place()
    return redis.call('HINCRBY', CRAWL, 'turn', 1)
end

-- Until when nothing of a slot is leased, for a pause or an interval; nil when neither is known.
local function held_until(slot)
    local pause, gap = redis.call('HGET', PAUSED, slot), redis.call('HGET', GAPS, slot)
    if not pause and not gap then return end
    return math.max(pause and (unpack_pause(pause)) or 0, gap and (unpack_gap(gap)) or 0)
end

-- Take a slot out of its place; once woken it is where it belongs.
local function displace(slot)
    redis.call('ZREM', ROTATION, slot)
    redis.call('ZREM', HELD, slot)
    mark(slot)
end

-- Put every marked slot that has something ready in its place: in the rotation, or held back by its pause or interval.
local function place_marked(now)
    for slot in pairs(marked) do
        if not redis.call('ZSCORE', ROTATION, slot) then
            local ready, ends = has_ready(slot), held_until(slot)
            if redis.call('ZSCORE', HELD, slot) then
                if not ready then redis.call('ZREM', HELD, slot) end
            elseif ready and ends and ends > now then
                redis.call('ZADD', HELD, decimal(ends), slot)
            elseif ready then
                redis.call('ZADD', ROTATION, next_place(), slot)
                if ends then
                    redis.call('HDEL', PAUSED, slot)
                    redis.call('HDEL', GAPS, slot)
                end
            end
        end
    end
    marked = {}
end

-- How many more or fewer elements wait, by the second of their arrival.
local waiting = {}

local function count_waiting(arrival, change)
    local second = math.floor(arrival / 1000000)
    waiting[second] = (waiting[second] or 0) + change
end

local function store_waiting()
    for second, change in pairs(waiting) do
        local number = change ~= 0 and redis.call('HINCRBY', AGES, second, change)
        if number and number <= 0 then
            redis.call('HDEL', AGES, second)
            redis.call('ZREM', ARRIVALS, second)
        elseif number == change then
            redis.call('ZADD', ARRIVALS, second, second)
        end
    end
    waiting = {}
end
