-- Claims an answer that is to be fetched, unless somebody has: it is there, or another worker is fetching it.
--
-- KEYS[1]  string, empty: the claim
-- KEYS[2]  string: the answer, in the form that `values.py` describes
-- ARGV[1]  when an answer that counts was fetched at the earliest: seconds since the epoch, a double, big-endian
-- ARGV[2]  for how long the claim stands (milliseconds)
--
-- Returns 1 when it is claimed now; 0 when there is such an answer, or a claim: then it writes nothing.
-- After a crash: the claim ends by itself.

local HEADER = '>BHd'
local header = redis.call('GETRANGE', KEYS[2], 0, struct.size(HEADER) - 1)
if #header == struct.size(HEADER) then
    local form, _, fetched_at = struct.unpack(HEADER, header)
    if form >= 1 and form <= 3 and fetched_at > struct.unpack('>d', ARGV[1]) then
        return 0
    end
end
return redis.call('SET', KEYS[1], '', 'NX', 'PX', ARGV[2]) and 1 or 0
