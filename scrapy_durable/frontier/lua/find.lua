-- What is known of one request. Reads only.
--
-- Uses: element.lua seen.lua
-- Flags: no-writes
-- KEYS  as in keys.lua
-- ARGV  1 offset of the clock (microseconds; tests only)
--       2 key (8 bytes)
--       3 the same in decimal
-- Returns {} for one that is not known, {"done"}, else
--         what element.lua tells of it
-- Error RELEASE when the crawl is of another version.
-- After a crash: nothing has changed.

local other = other_version()
if other then return of_other_release(other) end
local now, key = clock(ARGV[1]), ARGV[2]
local record = redis.call('HGET', ELEMENTS, key)
if not record then
    return redis.call('HEXISTS', CRAWL, 'id') == 1 and is_seen(ARGV[3]) and {'done'} or {}
end
return row_of_element(key, record, now)
