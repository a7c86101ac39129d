-- The statements of `status`, all run in one reading transaction: every count is of the same moment.

-- :tallies Pushed and done.
SELECT slot.name, callback.name, pushed, done
FROM tally JOIN slot ON slot.id = tally.slot JOIN callback ON callback.id = tally.callback;

-- :leased Leased, a walk along the leases.
SELECT slot.name, callback.name, count(*)
FROM work JOIN slot ON slot.id = work.slot JOIN callback ON callback.id = work.callback
WHERE state = 2 GROUP BY work.slot, work.callback;

-- :dead Dead, a walk along the dead letters.
SELECT slot.name, callback.name, count(*)
FROM work JOIN slot ON slot.id = work.slot JOIN callback ON callback.id = work.callback
WHERE state = 3 GROUP BY work.slot, work.callback;

-- :delayed Delayed, a walk along those whose time has not come.
SELECT slot.name, callback.name, count(*)
FROM work JOIN slot ON slot.id = work.slot JOIN callback ON callback.id = work.callback
WHERE state = 1 AND not_before > ? GROUP BY work.slot, work.callback;

-- :past_due Elements whose time was set and has come, and that nobody has fetched.
SELECT (SELECT count(*) FROM work WHERE state = 0 AND not_before > 0)
     + (SELECT count(*) FROM work WHERE state = 1 AND not_before <= ?);

-- :oldest When the first of those that wait was pushed; the leased and dead before it are passed over.
SELECT born FROM work WHERE state < 2 ORDER BY id LIMIT 1;

-- :workers Last sign of life, leases held and own numbers; without those that hold nothing, have reported nothing and were
-- not heard of since a time.
SELECT name, count(work.id), last_seen, report FROM worker LEFT JOIN work ON work.worker = worker.name AND state = 2
GROUP BY name HAVING count(work.id) > 0 OR report IS NOT NULL OR last_seen >= ? ORDER BY name;
