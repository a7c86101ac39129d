-- Pauses of sites, and the intervals that workers have learned.

local function set_pauses()
    for _, pause in ipairs(pauses) do
        local slot = number_of('slot', pause[2])
        local ends, set_before = now + pause[1], redis.call('HGET', PAUSED, slot)
        if not set_before or unpack_pause(set_before) < ends then
            redis.call('HSET', PAUSED, slot, pack_pause(ends, pause[3]))
        end
        displace(slot)
    end
end

local function learn_paces()
    for _, pace in ipairs(paces) do
        local slot = number_of('slot', pace[3])
        if pace_of(slot) == pace[1] then redis.call('HSET', PACES, slot, pack_pace(pace[1] + 1, pace[2])) end
    end
end
