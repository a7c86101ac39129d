-- The item logs of the crawl. Reads only.
--
-- Uses: acceptances.lua
-- Flags: no-writes
-- KEYS  as in keys.lua
-- Returns {name, worker that joined it last, unconfirmed tokens, state (0 open, 1 closed, 2 abandoned), microseconds since the epoch when
--          that worker was last heard of (text; "0": not known), ...}; empty when there is no crawl
-- Error RELEASE when the crawl is of another version, DAMAGED when its keys do not agree.
-- After a crash: nothing has changed.

local other = other_version()
if other then return of_other_release(other) end
if not redis.call('HGET', CRAWL, 'id') then return {} end
local contradiction = damage_of_logs()
if contradiction then return damaged(contradiction) end

local rows = {}
local logs = redis.call('HGETALL', LOGS)
for i = 1, #logs, 2 do
    local number, state, _, worker = unpack_log(logs[i + 1])
    local n = #rows
    rows[n + 1], rows[n + 2], rows[n + 3], rows[n + 4] = logs[i], worker, count_unconfirmed(number), state
    rows[n + 5] = redis.call('HGET', WORKERS, worker) or '0'
end
return rows
