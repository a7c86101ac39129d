-- The workers of the crawl, and what they have reported. Reads only, and walks along the leases alone, so that it may be asked often.
--
-- Flags: no-writes
-- KEYS  as in keys.lua
-- Returns {name, leases held, microseconds since the epoch when it was last heard of, its own numbers as it wrote them ("": none),
--          ...}; empty when there is no crawl
-- Error RELEASE when the crawl is of another version.
-- After a crash: nothing has changed.

local other = other_version()
if other then return of_other_release(other) end
local holds, rows = {}, {}
for _, lease in ipairs(redis.call('HVALS', LEASES)) do
    local worker = holder_of(lease)
    holds[worker] = (holds[worker] or 0) + 1
end
local seen = redis.call('HGETALL', WORKERS)
for i = 1, #seen, 2 do
    local n = #rows
    rows[n + 1], rows[n + 2], rows[n + 3] = seen[i], holds[seen[i]] or 0, seen[i + 1]
    rows[n + 4] = redis.call('HGET', REPORTS, seen[i]) or ''
end
return rows
