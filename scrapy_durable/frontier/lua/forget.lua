-- Remove a crawl: mark it as going, then remove its keys in several calls.
--
-- Uses: seen.lua
-- Flags: allow-oom
-- KEYS  as in keys.lua; when marking, behind them the verdict of the crawl (string), which stays; when
--       removing, keys to remove in this call
-- ARGV  1 crawl's id
--       2 "mark": from now on every call of its workers is answered with LOST, and nobody begins another
--         "remove": remove the keys behind those of keys.lua, and the last of the seen set
--         "end": when nothing is left of the seen set, remove the keys of keys.lua too, after which a new crawl may begin
--       3 when marking: how long the verdict is kept from now (seconds)
--         when removing: how many sets of the seen set at most
--       4 when marking: 1 when the crawl stays as long as something is unfinished
-- Returns when marking 1, or 0 when this crawl is not there or stays
--         else how many sets of the seen set are left
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

-- At least as many as there are, also when somebody has deleted their number: the last go first, so those below are there. Up to
-- version 7 there were always 65536, of which any may be empty, and no number.
local function sets_left()
    local number = tonumber(redis.call('HGET', CRAWL, 'seen_sets'))
    if number then return number end
    number = 65536
    while redis.call('EXISTS', seen_set(number)) == 1 do number = 2 * number end
    return number
end

local left = sets_left()
if step == 'remove' then
    local names = {unpack(KEYS, FIXED + 1)}
    local first = math.max(0, left - tonumber(ARGV[3]))
    for number = first, left - 1 do names[#names + 1] = seen_set(number) end
    if #names > 0 then redis.call('UNLINK', unpack(names)) end
    redis.call('HSET', CRAWL, 'seen_sets', first)
    return first
end
if left == 0 then redis.call('UNLINK', unpack(KEYS, 1, FIXED)) end
return left
