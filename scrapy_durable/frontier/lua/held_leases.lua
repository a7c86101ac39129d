-- What is leased, as those who look are told. Put in front of the scripts that tell it.

-- The rows of the oldest leases, `most` of them: {key (8 bytes), token, attempt, failures, downloaded (0, 1, or 2 for a spare), deadline and since when
-- (microseconds since the epoch), slot, callback, worker, payload, ...}. `all`: keys and leases, as HGETALL has them.
local function rows_of_leases(all, most)
    local found = {}
    for i = 1, #all, 2 do
        found[#found + 1] = {token = (unpack_lease(all[i + 1])), key = all[i], lease = all[i + 1]}
    end
    -- A token that is higher was given later.
    table.sort(found, function(a, b) return a.token < b.token end)

    local rows = {}
    for i = 1, math.min(most, #found) do
        local token, attempt, failures, downloaded, deadline, slot, _, _, callback = unpack_lease(found[i].lease)
        local n = #rows
        rows[n + 1], rows[n + 2], rows[n + 3], rows[n + 4] = found[i].key, token, attempt, failures
        rows[n + 5], rows[n + 6], rows[n + 7] = downloaded, deadline, (struct.unpack('>I7', since_of(found[i].lease)))
        rows[n + 8] = redis.call('HGET', NAMES, 'slot#' .. slot)
        rows[n + 9] = redis.call('HGET', NAMES, 'callback#' .. callback)
        rows[n + 10] = holder_of(found[i].lease)
        rows[n + 11] = string.sub(redis.call('HGET', ELEMENTS, found[i].key), PREFIX + 1)
    end
    return rows
end
