-- Which slots have their turn, and how old the waiting are. Put in front of the scripts that make elements wait.

-- Slots that may have got something ready, or a free place.
local roused = {}

local function rouse(slot)
    roused[slot] = true
end

local function has_ready(slot)
    local first, behind = range_of(slot)
    return #redis.call('ZRANGEBYLEX', READY, first, behind, 'LIMIT', 0, 1) > 0
end

local function next_turn()
    return redis.call('HINCRBY', CRAWL, 'turn', 1)
end

-- Put every roused slot that has something ready in its place: in the rotation, or held back by its pause.
local function wake(now)
    for slot in pairs(roused) do
        if not redis.call('ZSCORE', TURNS, slot) then
            local ready, paused_until = has_ready(slot), redis.call('HGET', PAUSED, slot)
            if redis.call('ZSCORE', HELD, slot) then
                if not ready then redis.call('ZREM', HELD, slot) end
            elseif ready and paused_until and tonumber(paused_until) > now then
                redis.call('ZADD', HELD, paused_until, slot)
            elseif ready then
                redis.call('ZADD', TURNS, next_turn(), slot)
                if paused_until then redis.call('HDEL', PAUSED, slot) end
            end
        end
    end
    roused = {}
end

-- How many more or fewer elements wait, by the second of their arrival.
local waiting = {}

local function count_waiting(arrival, change)
    local second = math.floor(arrival / 1000000)
    waiting[second] = (waiting[second] or 0) + change
end

local function store_waiting()
    for second, change in pairs(waiting) do
        if change ~= 0 and redis.call('HINCRBY', AGES, second, change) <= 0 then
            redis.call('HDEL', AGES, second)
        end
    end
    waiting = {}
end
