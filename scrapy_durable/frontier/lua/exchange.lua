-- Apply all that a worker has to say, and lease elements to it.
--
-- Loaded twice. Plainly, Redis refuses to start it when the memory is full, so that nothing of it happens. With the flag
-- allow-oom it runs all the same: for exchanges that add no element, which is how a full server gets empty again.
--
-- The order is: end expired leases, delays and pauses; entries; sent; downloaded; unsent; acks; logged; confirmed; retries; dead letters; releases; renewals;
-- pauses; paces; report; leases. Entries come first, so that children are in before their parent's ack; but it is all one step.
--
-- Uses: rotation.lua limits.lua acceptances.lua seen.lua exchange/messages.lua exchange/answer.lua exchange/sums.lua exchange/states.lua exchange/entries.lua exchange/outcomes.lua exchange/sites.lua exchange/leasing.lua
-- KEYS  as in keys.lua
-- ARGV  1 crawl's id
--       2 worker; empty: somebody who is none, and holds nothing
--       3 nonce of this worker's process
--       4 number of the exchange within it: counts up, and a repetition has the same; 0 is for an exchange that may
--         happen any number of times, and whose reply is not kept
--       5 length of a lease (microseconds)
--       6 attempts after which an element is dead-lettered
--       7 offset of the clock (microseconds; tests only)
--       8 leases wanted
--       9-22 the messages: one string for each kind, in which they stand one after the other, packed as in FORMATS
--       23 the worker's own numbers, kept as they come in place of those before; empty: those before stay
--       24 name of the item log that this worker's process has joined; empty: none
-- Returns {unfinished elements,
--          microseconds until the next delay, pause or interval ends that holds something back (-1: none does),
--          leases: a string of key (8 bytes), token (8), attempt (2), failures (2), length of the slot's name (2), length of the
--              record (4), 1 when it is a spare and else 0 (1), name, record (16 bytes that are of no use to the caller, and the payload); and so on,
--          refused entries: a string of keys,
--          stale messages: a string of keys and tokens (8 bytes each),
--          retries that became dead letters: a string of keys,
--          paces of the slots that messages named, in their order: a string of version (8 bytes) and seconds (double),
--          microseconds since the epoch by the crawl's clock, and by how many it is ahead of the server's}
--         error LOST when the crawl is gone, DAMAGED when its keys do not agree; error SUPERSEDED when the worker has made a later exchange already.
-- After a crash: all of it has happened, or nothing. If the reply was lost, the same number again gives the same reply,
-- without the leases that ended meanwhile; if the worker died, its leases expire.

if not is_joined(crawl_id) then return lost() end
local contradiction = damage()
if not contradiction and #logged + #confirmed > 0 then contradiction = damage_of_logs() end
if contradiction then return damaged(contradiction) end

keep_clock(now, ahead)
if worker ~= '' then redis.call('HSET', WORKERS, worker, decimal(now)) end
local before = answer_again()
if before then return before end

if worker ~= '' then end_expired_leases() end -- an operator is told other limits than the workers
end_delays_and_pauses()
add_entries()
apply_outcomes()
set_pauses()
learn_paces()
if #report > 0 then redis.call('HSET', REPORTS, worker, report) end

place_marked(now)
note_asking(lease())
place_marked(now)

if #stale > 0 then redis.call('HINCRBY', CRAWL, 'stale', #stale / 16) end
store_sums()
local left = unfinished()
if left > 0 then redis.call('HDEL', CRAWL, 'finisher') end
remember_answer()
return reply(left)
