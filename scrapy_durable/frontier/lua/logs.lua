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
return rows_of_logs()
