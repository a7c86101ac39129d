-- The statements about dead letters.

-- :list The dead letters, oldest first, at most so many after so many others.
SELECT key, slot.name, callback.name, attempts, reason, deadline, payload, failures
FROM work JOIN body USING (id) JOIN slot ON slot.id = work.slot JOIN callback ON callback.id = work.callback
WHERE state = 3 ORDER BY deadline, work.id LIMIT ? OFFSET ?;

-- :revive Every dead letter is queued, with its attempts and failures back at zero.
UPDATE work SET state = 0, attempts = 0, failures = 0, not_before = 0, reason = NULL WHERE state = 3;

-- :revive_one The dead letter of that key is queued likewise.
UPDATE work SET state = 0, attempts = 0, failures = 0, not_before = 0, reason = NULL
WHERE state = 3 AND key = ? RETURNING slot, callback;

-- :count How many, by slot and callback.
SELECT slot, callback, count(*) FROM work WHERE state = 3 GROUP BY slot, callback;

-- :drop_bodies The payloads of the dead letters.
DELETE FROM body WHERE id IN (SELECT id FROM work WHERE state = 3);

-- :drop And the dead letters themselves.
DELETE FROM work WHERE state = 3;
