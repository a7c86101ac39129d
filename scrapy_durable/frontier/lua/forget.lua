-- Remove a crawl: mark it as going, then remove its keys in several calls.
--
-- Flags: allow-oom
-- KEYS  as in keys.lua; when marking, behind them the verdict of the crawl (string), which stays; when
--       removing, the keys to remove in this call
-- ARGV  1 crawl's id
--       2 "mark": from now on every call of its workers is answered with LOST, and nobody begins another
--         "remove": remove the keys behind those of keys.lua
--         "end": remove those of keys.lua too, after which a new crawl may begin
--       3 when marking: how long the verdict is kept from now (seconds)
--       4 when marking: 1 when the crawl stays as long as something is unfinished
-- Returns 1, or 0 when this crawl is not there, not marked, or stays
-- After a crash: a crawl that is marked is removed by whoever begins the next one.

local crawl_id, step = ARGV[1], ARGV[2]
if step == 'mark' then
    if redis.call('HGET', CRAWL, 'forgetting') == crawl_id then return 1 end
    if not is_joined(crawl_id) then return 0 end
    if ARGV[4] == '1' and unfinished() > 0 then return 0 end
    redis.call('HSET', CRAWL, 'forgetting', crawl_id)
    redis.call('HDEL', CRAWL, 'id')
    redis.call('EXPIRE', KEYS[FIXED + 1], ARGV[3])
    return 1
end
if redis.call('HGET', CRAWL, 'forgetting') ~= crawl_id then return 0 end
if step == 'remove' then
    redis.call('UNLINK', unpack(KEYS, FIXED + 1))
else
    redis.call('UNLINK', unpack(KEYS, 1, FIXED))
end
return 1
