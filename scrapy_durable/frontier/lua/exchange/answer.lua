-- What the worker is answered, and the same answer once more when it did not arrive.

local leases, refused, stale, dead_lettered = {}, '', '', ''
-- The heads of the leases that are given in this exchange.
local given = {}
local HEAD = 27
-- Of a lease that is not in flight yet: it waits for a place of its slot that this worker has.
local SPARE = 2

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

-- `left`: unfinished elements, where that is known already.
local function reply(left)
    local known = ''
    for _, pace in ipairs(paces) do
        known = known .. struct.pack('>I8d', pace_of(redis.call('HGET', NAMES, 'slot:' .. pace[3])))
    end
    return {left or unfinished(), next_due(), table.concat(leases), refused, stale, dead_lettered, known, now, ahead}
end

local function slot_name(slot)
    return redis.call('HGET', NAMES, 'slot#' .. slot)
end

-- Put a lease into the answer, and return its head: key, token, attempt, failures, two lengths, whether it is a spare. The record goes as it is: Lua interns every string
-- that it makes, and payloads are long and much alike.
local function give(key, token, attempt, failures, is_spare, name, record)
    local head = key .. struct.pack('>I8I2I2I2I4B', token, attempt, failures, #name, #record, is_spare and 1 or 0)
    leases[#leases + 1], leases[#leases + 2], leases[#leases + 3] = head, name, record
    return head
end

-- The answer to an exchange that has taken effect before, without the leases that ended meanwhile; nil for a new one. Or the
-- error SUPERSEDED, when the worker has made a later one already.
local function answer_again()
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
                    local current, attempt, failures, state, _, slot = unpack_lease(lease)
                    if current == token then
                        give(key, token, attempt, failures, state == SPARE, slot_name(slot), redis.call('HGET', ELEMENTS, key))
                    end
                end
            end
            return reply()
        end
    end
end

-- Remember what is needed to answer this exchange again.
local function remember_answer()
    if exchange_number == 0 then return end
    redis.call('HSET', REPLIES, worker, cmsgpack.pack({
        nonce = nonce, number = exchange_number,
        given = table.concat(given), refused = refused, stale = stale, dead_lettered = dead_lettered,
    }))
end
