-- The statements of `status`, all run in one reading transaction: every count is of the same moment.

-- :tallies Pushed, done, delayed and dead.
SELECT slot.name, callback.name, pushed, done, delayed, dead
FROM tally JOIN slot ON slot.id = tally.slot JOIN callback ON callback.id = tally.callback;

-- :leased Leased, a walk along the leases.
SELECT slot.name, callback.name, count(*)
FROM work JOIN slot ON slot.id = work.slot JOIN callback ON callback.id = work.callback
WHERE state = 2 GROUP BY work.slot, work.callback;

-- :due Delayed, but their time has come; a walk along those that no exchange has seen since, at most so many.
SELECT slot.name, callback.name, count(*)
FROM (SELECT slot, callback FROM work WHERE state = 1 AND not_before <= ? ORDER BY not_before LIMIT ?) AS due
JOIN slot ON slot.id = due.slot JOIN callback ON callback.id = due.callback
GROUP BY due.slot, due.callback;

-- :past_due Elements whose time was set and has come, and that nobody has fetched.
SELECT (SELECT count(*) FROM work WHERE state = 0 AND not_before > 0)
     + (SELECT count(*) FROM work WHERE state = 1 AND not_before <= ?);

-- :oldest When the first of those that wait was pushed; the leased and dead before it are passed over.
SELECT born FROM work WHERE state < 2 ORDER BY id LIMIT 1;

-- :workers Last sign of life, leases held and own numbers; without those that hold nothing, have reported nothing and were
-- not heard of since a time.
SELECT name, count(work.id), last_seen, report FROM worker LEFT JOIN work ON work.worker = worker.name AND state = 2
GROUP BY name HAVING count(work.id) > 0 OR report IS NOT NULL OR last_seen >= ? ORDER BY name;

-- :leases What is leased, the oldest first: a higher token was given later.
SELECT key, token, slot.name, callback.name, worker, attempts, failures, since, deadline, downloaded, payload
FROM work JOIN body USING (id) JOIN slot ON slot.id = work.slot JOIN callback ON callback.id = work.callback
WHERE state = 2 ORDER BY token LIMIT ?;

-- :reasons How often requests were queued again or given up.
SELECT kind, number FROM reason WHERE what = ?;

-- :limits Of slots, and of all others.
SELECT name, cap, interval FROM slot_limit;

-- :held Slots with something ready that are paused or in an interval, those that come out first; at most so many.
SELECT name, paused_until, pause_reason, spaced_until, pace,
       (SELECT count(*) FROM work WHERE work.slot = slot.id AND state = 2 AND downloaded = 0)
FROM slot WHERE held_until > ? ORDER BY held_until LIMIT ?;

-- :busy Slots with something ready and leases in flight, a walk along these leases.
SELECT name, pace, count(*) FROM work JOIN slot ON slot.id = work.slot
WHERE state = 2 AND downloaded = 0 AND EXISTS (SELECT 1 FROM work AS other WHERE other.slot = slot.id AND other.state = 0)
GROUP BY slot.id;

-- :in_flight Slots with leases in flight, a walk along these; at most so many.
SELECT name, pace, count(*) FROM work JOIN slot ON slot.id = work.slot
WHERE state = 2 AND downloaded = 0 GROUP BY slot.id LIMIT ?;

-- :element All that is known of an element that is not done.
SELECT state, slot.name, callback.name, priority, born, attempts, failures, not_before, coalesce(worker, ''), since, deadline,
       coalesce(reason, ''), payload
FROM work JOIN body USING (id) JOIN slot ON slot.id = work.slot JOIN callback ON callback.id = work.callback WHERE key = ?;

-- :list_queued What is queued, by slot and in the order of leasing; at most so many, as in those below.
SELECT key FROM work WHERE state = 0 ORDER BY slot, priority DESC, id LIMIT ?;

-- :list_queued_of What is queued of a slot.
SELECT key FROM work WHERE state = 0 AND slot = (SELECT id FROM slot WHERE name = ?) ORDER BY priority DESC, id LIMIT ?;

-- :list_delayed What is delayed beyond a time, the next first.
SELECT key FROM work WHERE state = 1 AND not_before > ? ORDER BY not_before LIMIT ?;

-- :list_leased What is leased, the oldest first.
SELECT key FROM work WHERE state = 2 ORDER BY token LIMIT ?;

-- :list_dead What is dead, the oldest first.
SELECT key FROM work WHERE state = 3 ORDER BY deadline, id LIMIT ?;
