-- Give an item log up: what is remembered for it is dropped, and nobody joins it again.
--
-- Uses: acceptances.lua
-- Flags: allow-oom
-- KEYS  as in keys.lua
-- ARGV  1 name of the log
-- Returns how many tokens were remembered for it, or -1 when there is no log of that name
-- Error RELEASE when the crawl is of another version, DAMAGED when its keys do not agree.
-- After a crash: it is given up, or nothing has changed. Again, it returns 0.

local name = ARGV[1]
local other = other_version()
if other then return of_other_release(other) end
if not redis.call('HGET', CRAWL, 'id') then return -1 end
local contradiction = damage_of_logs()
if contradiction then return damaged(contradiction) end
local record = redis.call('HGET', LOGS, name)
if not record then return -1 end
local number, _, nonce, worker = unpack_log(record)
redis.call('HSET', LOGS, name, pack_log(number, ABANDONED, nonce, worker))
return drop_tokens(number)
