-- The seen set: the keys of what is done, in sets of integers, which Redis keeps as sorted arrays of 8 bytes each as long as they
-- have no more members than `set-max-intset-entries`.
--
-- It is a linear hash table: whenever the sets have more than MEAN members each, the next in turn is split in two. So one has
-- between MEAN and twice as many, give or take, however many are seen. How many sets there are is known here only, so they
-- cannot be declared; they have the hash tag of all others.

local function seen_set(number)
    return string.sub(CRAWL, 1, -#'crawl' - 1) .. 'seen:' .. number
end

-- In a block: a script may have 200 local variables at once. Keys are in decimal.
local is_seen, note_seen
do
    local MEAN = 192

    -- By what a key is spread: its last digits, which are as good as a hash, since the key is one.
    local function digits_of(key)
        return tonumber(string.sub(key, -9))
    end

    -- How many are seen, how many sets there are, and the largest power of two that is not above the latter; read when they are
    -- first needed. All sets below `sets - power` are split for twice that power already.
    local seen, sets, power

    local function read_numbers()
        local numbers = redis.call('HMGET', CRAWL, 'seen', 'seen_sets')
        seen, sets, power = tonumber(numbers[1]), tonumber(numbers[2]), 1
        while 2 * power <= sets do power = 2 * power end
    end

    local function set_of(key)
        if not seen then read_numbers() end
        local digits = digits_of(key)
        local number = digits % power
        if number < sets - power then number = digits % (2 * power) end
        return seen_set(number)
    end

    function is_seen(key)
        return redis.call('SISMEMBER', set_of(key), key) == 1
    end

    local function split_next()
        local old, new = seen_set(sets - power), seen_set(sets)
        local moved = {}
        for _, key in ipairs(redis.call('SMEMBERS', old)) do
            if digits_of(key) % (2 * power) == sets then moved[#moved + 1] = key end
        end
        redis.call('UNLINK', new) -- what somebody else has left there
        call_in_pieces('SADD', new, moved, 1)
        call_in_pieces('SREM', old, moved, 1)
        sets = sets + 1
        if sets == 2 * power then power = sets end
    end

    function note_seen(keys)
        if #keys == 0 then return end
        for _, key in ipairs(keys) do
            if redis.call('SADD', set_of(key), key) == 1 then
                seen = seen + 1
                if seen > MEAN * sets then split_next() end
            end
        end
        redis.call('HSET', CRAWL, 'seen', seen, 'seen_sets', sets)
    end
end
