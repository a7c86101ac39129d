-- End the leases of one process, as if their time were over. Put behind keys.lua; the next exchange takes them back.
--
-- KEYS  as in keys.lua
-- ARGV  1 what stands in the names of its workers: its process id, in hyphens
-- Returns how many

local ended = 0
local leases = redis.call('HGETALL', LEASES)
for i = 1, #leases, 2 do
    local key, lease = leases[i], leases[i + 1]
    local worker = holder_of(lease)
    if string.find(worker, ARGV[1], 1, true) then
        local token, attempt, failures, downloaded = unpack_lease(lease)
        redis.call('HSET', LEASES, key, pack_lease(token, attempt, failures, downloaded, 0, member_of(lease), since_of(lease), worker))
        redis.call('ZADD', DEADLINES, 0, worker)
        ended = ended + 1
    end
end
return ended
