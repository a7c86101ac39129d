-- Messages about leases. What they end is gathered and removed from the keys of the leases at once.

-- In a block: a script may have 200 local variables at once.
local apply_outcomes
do
    -- The leases that messages name, by their key.
    local held = {}

    -- The lease that a message names; nil if the message is stale.
    local function find(message)
        local lease = held[message[1]]
        if lease and unpack_lease(lease) == message[2] then return lease end
        stale = stale .. pack_held(message[1], message[2])
    end

    local ended, forgotten, done_in_decimal = {}, {}, {}

    -- The lease that a message ends, then its attempt, failures, slot and callback; nil if the message is stale.
    local function finish_lease(message)
        local key, lease = message[1], find(message)
        if not lease then return end
        local _, attempt, failures, is_downloaded, _, slot, _, _, callback = unpack_lease(lease)
        if is_downloaded == 0 then leave_flight(slot, lease) end
        held[key] = nil
        ended[#ended + 1] = key
        return lease, attempt, failures, slot, callback
    end

    local function rewrite(key, lease, is_downloaded, ends)
        local token, attempt, failures = unpack_lease(lease)
        held[key] = pack_lease(token, attempt, failures, is_downloaded, ends, member_of(lease), since_of(lease), holder_of(lease))
        redis.call('HSET', LEASES, key, held[key])
    end

    -- The slot of a lease that a message names, whose download is over now; nil if it was before, or the message is stale.
    local function note_downloaded(message)
        local lease = find(message)
        if not lease then return end
        local _, _, _, is_downloaded, ends, slot = unpack_lease(lease)
        if is_downloaded ~= 0 then return end
        leave_flight(slot, lease)
        rewrite(message[1], lease, 1, ends)
        return slot
    end

    -- A spare has taken the place of one that was answered since the last exchange, whose place is free by the same exchange.
    local function note_sent(message)
        local lease = find(message)
        if not lease then return end
        local _, _, _, state, ends, slot = unpack_lease(lease)
        if state ~= SPARE then return end
        count_in_flight(slot, holder_of(lease), 1)
        rewrite(message[1], lease, 0, ends)
    end

    -- Whether an element is done now; false if the message is stale.
    local function acknowledge(message)
        local lease, _, _, slot, callback = finish_lease(message)
        if not lease then return false end
        forgotten[#forgotten + 1] = message[1]
        done_in_decimal[#done_in_decimal + 1] = message[3]
        count(done, slot, callback)
        return true
    end

    -- Acknowledge what is logged, and remember its tokens; forget those that are confirmed. Without a log of its own, all that the worker
    -- has logged is stale.
    local function apply_logged()
        if #logged == 0 and #confirmed == 0 then return end
        local log = log_of(log_name, worker, nonce)
        if not log then
            for _, message in ipairs(logged) do stale = stale .. pack_held(message[1], message[2]) end
            return
        end
        local tokens = {}
        for _, message in ipairs(logged) do
            if acknowledge(message) then tokens[#tokens + 1] = message[2] end
        end
        remember(log, tokens)
        confirm(log, confirmed)
    end

    local function read_leases()
        for _, list in ipairs({sent, downloaded, unsent, acks, logged, retries, dead_letters, releases, renewals}) do
            if #list > 0 then
                local keys_held = keys_of(list)
                for i, lease in ipairs(get_in_pieces(LEASES, keys_held)) do held[keys_held[i]] = lease end
            end
        end
    end

    function apply_outcomes()
        read_leases()
        for _, message in ipairs(sent) do note_sent(message) end
        for _, message in ipairs(downloaded) do note_downloaded(message) end

        for _, message in ipairs(unsent) do
            local slot = note_downloaded(message)
            local gap = slot and redis.call('HGET', GAPS, slot)
            if gap then
                local _, last = unpack_gap(gap)
                if last == message[2] then
                    redis.call('HDEL', GAPS, slot)
                    displace(slot)
                end
            end
        end

        for _, message in ipairs(acks) do acknowledge(message) end
        apply_logged()

        for _, message in ipairs(retries) do
            local lease, attempt, failures = finish_lease(message)
            if lease and attempt >= max_attempts then
                dead_letter(message[1], attempt, failures + 1, prefix_of(lease), message[4], message[5])
                dead_lettered = dead_lettered .. message[1]
            elseif lease then
                count_reason('retry', message[5])
                redis.call('HSET', ATTEMPTS, message[1], pack_tries(attempt, failures + 1))
                if message[3] > 0 then
                    delay(member_of(lease), now + message[3])
                else
                    queue(member_of(lease))
                end
            end
        end

        for _, message in ipairs(dead_letters) do
            local lease, attempt, failures = finish_lease(message)
            if lease then dead_letter(message[1], attempt, failures, prefix_of(lease), message[3], message[4]) end
        end

        for _, message in ipairs(releases) do
            local lease, attempt, failures = finish_lease(message)
            if lease then
                if attempt > 1 then redis.call('HSET', ATTEMPTS, message[1], pack_tries(attempt - 1, failures)) end
                queue(member_of(lease))
            end
        end

        for _, message in ipairs(renewals) do
            local lease = find(message)
            if lease then
                local _, _, _, is_downloaded = unpack_lease(lease)
                rewrite(message[1], lease, is_downloaded, deadline)
            end
        end

        note_seen(done_in_decimal)
        call_in_pieces('HDEL', LEASES, ended, 1)
        call_in_pieces('HDEL', ELEMENTS, forgotten, 1)
        store_in_flight()
    end
end
