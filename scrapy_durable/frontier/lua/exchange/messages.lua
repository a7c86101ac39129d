-- What the worker says: its arguments, and the messages that are packed into them.

assert(#ARGV == 24, '24 arguments are needed')
for i = 4, 8 do assert(tonumber(ARGV[i]), 'argument ' .. i .. ' is not a number') end
local crawl_id, worker, nonce = ARGV[1], ARGV[2], ARGV[3]
local exchange_number, lease_length, max_attempts = tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6])
local now, ahead = clock(ARGV[7])
local want = tonumber(ARGV[8])
local report, log_name = ARGV[23], ARGV[24]
local deadline = now + lease_length
local since = pack_time(now)

-- Numbers are unsigned and big-endian; a text has its length (1, 2 or 4 bytes) in front. Times are microseconds.
local FORMATS = {
    '>c8I4I8Bc0I2c0I2c0I4c0',    -- entry: key, rank, delay, key in decimal, slot, callback, payload
    '>c8I8',                     -- downloaded: key, token
    '>c8I8',                     -- unsent: key, token
    '>c8I8Bc0',                  -- ack: key, token, key in decimal
    '>c8I8Bc0',                  -- logged: as an ack
    '>I8',                       -- confirmed: token
    '>c8I8I8I2c0I2c0',           -- retry: key, token, delay, reason, kind of reason
    '>c8I8I2c0I2c0',             -- dead letter: key, token, reason, kind of reason
    '>c8I8',                     -- release: key, token
    '>c8I8',                     -- renewal: key, token
    '>I8I2c0I2c0',               -- pause: duration, slot, reason
    '>I8dI2c0',                  -- pace: version that it follows, interval (seconds), slot
    '>c8I8',                     -- sent: key, token
    '>I4I2c0',                   -- spares wanted: how many, slot
}

local NONE = {}

-- The messages of one kind, each a list of its fields; of most kinds there are none.
local function unpack_messages(kind)
    local packed = ARGV[8 + kind]
    if packed == '' then return NONE end
    local list = {}
    local position, length = 1, #packed
    while position <= length do
        local message = {struct.unpack(FORMATS[kind], packed, position)}
        position = table.remove(message)
        list[#list + 1] = message
    end
    return list
end

local messages = {}
for kind = 1, #FORMATS do messages[kind] = unpack_messages(kind) end
local entries, downloaded, unsent, acks, logged = messages[1], messages[2], messages[3], messages[4], messages[5]
local confirmed, retries, dead_letters, releases = messages[6], messages[7], messages[8], messages[9]
local renewals, pauses, paces, sent, spares = messages[10], messages[11], messages[12], messages[13], messages[14]

-- The first field of each: its key.
local function keys_of(list)
    local keys = {}
    for i, message in ipairs(list) do keys[i] = message[1] end
    return keys
end
