-- How much a slot may be asked. Put in front of the scripts that look at it.

-- Version and interval (seconds) that were learned for a slot; 0 and 0 before that.
local function pace_of(slot)
    local pace = slot and redis.call('HGET', PACES, slot)
    if not pace then return 0, 0 end
    return unpack_pace(pace)
end

-- Returns a slot's cap and the interval that holds for it (microseconds; 0: none). `usual`: the limit of slots without their own;
-- `some_paced`: whether anything was learned for any.
local function limit_of(slot, name, usual, some_paced)
    local cap, interval = unpack_limit(redis.call('HGET', LIMITS, name) or usual)
    if some_paced then
        local _, learned = pace_of(slot)
        interval = math.max(interval, math.floor(learned * 1000000 + 0.5))
    end
    return cap, interval
end
