-- What is known of one element, as those who look are told. Put in front of the scripts that tell it.

-- Of an element that is not done: {"queued", "delayed", "leased" or "dead", slot, callback, rank, microseconds since the epoch when it was pushed,
-- attempts, failures, when it is due, (of a lease) since when and until when, (of a dead one) when it died: each in microseconds as text, "0" where
-- it does not apply, worker, reason, payload}. `record`: as `elements` has it.
local function row_of_element(key, record, now)
    local prefix, payload = string.sub(record, 1, PREFIX), string.sub(record, PREFIX + 1)
    local slot, rank, arrival, callback = unpack_prefix(prefix)
    local state, attempts, failures = 'queued', 0, 0
    local due, since, deadline, died, worker, reason = '0', '0', '0', '0', '', ''
    local lease, death = redis.call('HGET', LEASES, key), redis.call('HGET', DEAD, key)
    if lease then
        local _, ends
        _, attempts, failures, _, ends = unpack_lease(lease)
        state, worker, deadline = 'leased', holder_of(lease), decimal(ends)
        since = decimal((struct.unpack('>I7', since_of(lease))))
    elseif death then
        state = 'dead'
        local _
        attempts, failures, _, reason = unpack_death(death)
        died = redis.call('ZSCORE', DEATHS, key) or '0'
    else
        local tries = redis.call('HGET', ATTEMPTS, key)
        if tries then attempts, failures = unpack_tries(tries) end
        local time = redis.call('ZSCORE', DELAYED, prefix .. key)
        if time and tonumber(time) > now then state, due = 'delayed', time end
    end
    return {state, redis.call('HGET', NAMES, 'slot#' .. slot), redis.call('HGET', NAMES, 'callback#' .. callback), rank, decimal(arrival),
        attempts, failures, due, since, deadline, died, worker, reason, payload}
end
