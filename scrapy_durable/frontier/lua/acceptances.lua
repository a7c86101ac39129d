-- Which item log is whose, and the tokens that are remembered for it. Put in front of the scripts that deal with logs.

-- What contradicts itself about logs; nil when nothing does. Every script leaves them in agreement: so somebody else has
-- deleted or changed one, and items would be missing without a word.
local function damage_of_logs()
    local counts = redis.call('HMGET', CRAWL, 'logs', 'unconfirmed')
    local known, unconfirmed = tonumber(counts[1] or 0), tonumber(counts[2] or 0)
    local logs, accepted = redis.call('HLEN', LOGS), redis.call('ZCARD', ACCEPTED)
    if known ~= logs then return logs .. ' item logs are kept, and not as many as have joined' end
    if unconfirmed ~= accepted then return accepted .. ' unconfirmed leases are kept, and not as many as were accepted' end
end

local function first_of(log)
    return score_of(log, 0)
end

local function last_of(log)
    return score_of(log, ACCEPTANCES - 1)
end

-- The tokens of a log, in the order of acceptance, as text.
local function tokens_of(log)
    return redis.call('ZRANGEBYSCORE', ACCEPTED, first_of(log), last_of(log))
end

local function count_unconfirmed(log)
    return redis.call('ZCOUNT', ACCEPTED, first_of(log), last_of(log))
end

-- Remember these tokens for a log, after all before them. One that was closed is open again.
local function remember(log, tokens)
    if #tokens == 0 then return end
    local acceptance = redis.call('HINCRBY', CRAWL, 'acceptance', #tokens) - #tokens
    local members = {}
    for i, token in ipairs(tokens) do
        members[2 * i - 1], members[2 * i] = score_of(log.number, acceptance + i), decimal(token)
    end
    call_in_pieces('ZADD', ACCEPTED, members, 2)
    redis.call('HINCRBY', CRAWL, 'unconfirmed', #tokens)
    if log.state == CLOSED then redis.call('HSET', LOGS, log.name, pack_log(log.number, OPEN, log.nonce, log.worker)) end
end

-- Forget these tokens, each the first of a list, if they are remembered for this log.
local function confirm(log, list)
    local forgotten = 0
    for _, message in ipairs(list) do
        local token = decimal(message[1])
        local score = tonumber(redis.call('ZSCORE', ACCEPTED, token) or -1)
        if math.floor(score / ACCEPTANCES) == log.number then
            redis.call('ZREM', ACCEPTED, token)
            forgotten = forgotten + 1
        end
    end
    if forgotten > 0 then redis.call('HINCRBY', CRAWL, 'unconfirmed', -forgotten) end
end

-- Forget all tokens of a log; returns how many.
local function drop_tokens(log)
    local dropped = redis.call('ZREMRANGEBYSCORE', ACCEPTED, first_of(log), last_of(log))
    if dropped > 0 then redis.call('HINCRBY', CRAWL, 'unconfirmed', -dropped) end
    return dropped
end

-- The log of that name, if this process of the worker has joined it last, and nobody has given it up; else nil, and true when
-- it was given up.
local function log_of(name, worker, nonce)
    local record = #name > 0 and redis.call('HGET', LOGS, name)
    if not record then return nil, false end
    local number, state, owner_nonce, owner = unpack_log(record)
    if owner ~= worker or owner_nonce ~= nonce then return nil, false end
    if state == ABANDONED then return nil, true end
    return {name = name, number = number, state = state, nonce = nonce, worker = worker}
end

-- The rows of all logs: {name, worker that joined it last, unconfirmed tokens, state, microseconds since the epoch when that worker was
-- last heard of (text; "0": not known), ...}.
local function rows_of_logs()
    local rows = {}
    local logs = redis.call('HGETALL', LOGS)
    for i = 1, #logs, 2 do
        local number, state, _, worker = unpack_log(logs[i + 1])
        local n = #rows
        rows[n + 1], rows[n + 2], rows[n + 3], rows[n + 4] = logs[i], worker, count_unconfirmed(number), state
        rows[n + 5] = redis.call('HGET', WORKERS, worker) or '0'
    end
    return rows
end
