-- Entries: new elements, and other times for those that wait.

-- In a block: a script may have 200 local variables at once.
local add_entries
do
    local arrival
    local function next_arrival()
        arrival = math.max(now, (arrival or tonumber(redis.call('HGET', CRAWL, 'arrival') or 0)) + 1)
        return arrival
    end

    -- New elements are gathered, and written when all entries are read or one of them comes again.
    local new_elements, new_ready = {}, {}

    local function write_new()
        call_in_pieces('HSET', ELEMENTS, new_elements, 2)
        call_in_pieces('ZADD', READY, new_ready, 2)
        new_elements, new_ready = {}, {}
    end

    local function add(key, rank, wait, slot_named, callback_named, payload)
        local slot, callback = number_of('slot', slot_named), number_of('callback', callback_named)
        local arrived = next_arrival()
        local prefix = pack_prefix(slot, rank, arrived, callback)
        new_elements[#new_elements + 1], new_elements[#new_elements + 2] = key, prefix .. payload
        count(pushed, slot, callback)
        if wait > 0 then
            delay(prefix .. key, now + wait)
        else
            new_ready[#new_ready + 1], new_ready[#new_ready + 2] = 0, prefix .. key
            count_waiting(arrived, 1)
            mark(slot)
        end
    end

    local function reschedule(key, record, rank, wait)
        local prefix = string.sub(record, 1, PREFIX)
        local slot, old_rank, arrived, callback = unpack_prefix(prefix)
        local member = prefix .. key
        if redis.call('ZREM', READY, member) == 0 then
            count(postponed, slot, callback, -redis.call('ZREM', DELAYED, member))
        else
            redis.call('SREM', OVERDUE, key)
        end
        if rank < old_rank then
            prefix = pack_prefix(slot, rank, arrived, callback)
            redis.call('HSET', ELEMENTS, key, prefix .. string.sub(record, PREFIX + 1))
        end
        count_waiting(arrived, -1)
        mark(slot)
        if wait > 0 then delay(prefix .. key, now + wait) else queue(prefix .. key) end
    end

    function add_entries()
        if #entries == 0 then return end
        local records = get_in_pieces(ELEMENTS, keys_of(entries))
        local met = {}
        for i, entry in ipairs(entries) do
            local key, rank, wait, in_decimal, slot, callback, payload = unpack(entry)
            local record = records[i]
            if met[key] then
                write_new()
                record = redis.call('HGET', ELEMENTS, key)
            end
            met[key] = true
            if record then
                if redis.call('HEXISTS', LEASES, key) == 1 or redis.call('HEXISTS', DEAD, key) == 1 then
                    refused = refused .. key
                else
                    reschedule(key, record, rank, wait)
                end
            elseif is_seen(in_decimal) then
                refused = refused .. key
            else
                add(key, rank, wait, slot, callback, payload)
            end
        end
        write_new()
        if arrival then redis.call('HSET', CRAWL, 'arrival', decimal(arrival)) end
    end
end
