-- The statements of one exchange, all run in one transaction: after a crash it took effect whole or not at all.
-- A statement begins at its name; what stands behind the name says what it is for.

-- :read_crawl The crawl's own row.
SELECT crawl_id, next_id, next_token, next_turn, unfinished, stale, finisher FROM crawl;

-- :write_crawl Its counters, after the changes.
UPDATE crawl SET next_id = ?, next_token = ?, next_turn = ?, unfinished = ?, stale = ?, finisher = ?;

-- :sign_of_life The worker was heard of.
INSERT INTO worker (name, last_seen) VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET last_seen = excluded.last_seen;

-- :report The worker's own numbers, in place of those before.
UPDATE worker SET report = ? WHERE name = ?;

-- :expired Leases past their deadline, the longest first; at most so many.
SELECT id, slot, callback, attempts FROM work WHERE state = 2 AND deadline <= ? ORDER BY deadline LIMIT ?;

-- :due Delayed elements whose time has come, the longest first; at most so many.
SELECT id, slot, callback FROM work WHERE state = 1 AND not_before <= ? ORDER BY not_before LIMIT ?;

-- :promote A delayed element is queued; `not_before` stays, as the mark that it is past due.
UPDATE work SET state = 0 WHERE id = ?;

-- :is_done Whether an element is done.
SELECT 1 FROM done WHERE key = ?;

-- :find An element that is not done.
SELECT id, state, slot, callback, priority FROM work WHERE key = ?;

-- :add A new element.
INSERT INTO work (id, key, state, slot, callback, priority, born, not_before) VALUES (?, ?, ?, ?, ?, ?, ?, ?);

-- :add_body Its payload.
INSERT INTO body (id, payload) VALUES (?, ?);

-- :reschedule One that waits takes a new time and the better priority.
UPDATE work SET state = ?, not_before = ?, priority = ? WHERE id = ?;

-- :find_held A lease, if the token is the current one.
SELECT id, slot, callback, attempts FROM work WHERE key = ? AND state = 2 AND token = ?;

-- :note_downloaded The lease is no longer in flight.
UPDATE work SET downloaded = 1 WHERE id = ?;

-- :free_time The interval after a lease ends, if it was the slot's last lease and has not downloaded before. The slot leaves
-- its place, and is put where it belongs by the waking.
UPDATE slot SET spaced_until = 0, held_until = NULL WHERE id = ? AND last_token = ?
AND EXISTS (SELECT 1 FROM work WHERE id = ? AND downloaded = 0);

-- :remove An element leaves the work.
DELETE FROM work WHERE id = ?;

-- :remove_body And its payload.
DELETE FROM body WHERE id = ?;

-- :finish And is done.
INSERT INTO done (key) VALUES (?);

-- :requeue A lease ends, and its element waits again.
UPDATE work SET state = ?, not_before = ?, attempts = ? WHERE id = ?;

-- :fail A lease ends in a retry.
UPDATE work SET failures = failures + 1 WHERE id = ?;

-- :dead_letter A lease ends, and its element is dead.
UPDATE work SET state = 3, deadline = ?, reason = ? WHERE id = ?;

-- :renew The lease gets a new deadline.
UPDATE work SET deadline = ? WHERE id = ?;

-- :slot_id The number of a slot.
SELECT id FROM slot WHERE name = ?;

-- :add_slot A slot seen for the first time.
INSERT INTO slot (name) VALUES (?);

-- :callback_id The number of a callback.
SELECT id FROM callback WHERE name = ?;

-- :add_callback A callback seen for the first time.
INSERT INTO callback (name) VALUES (?);

-- :pause A slot is paused; a pause that ends later stays, with its reason. It leaves its place, and is put where it belongs by the waking.
UPDATE slot SET pause_reason = CASE WHEN ? > paused_until THEN ? ELSE pause_reason END,
paused_until = max(paused_until, ?), turn = NULL, held_until = NULL WHERE id = ?;

-- :resume A slot's pause for a reason ends; the slot leaves its place too. Gives its number, or nothing.
UPDATE slot SET paused_until = 0, pause_reason = '', turn = NULL, held_until = NULL
WHERE name = ? AND pause_reason = ? AND paused_until > ? RETURNING id;

-- :space_out The slot has an interval, and was leased of: nothing more until that is over. It leaves its place too.
UPDATE slot SET spaced_until = ?, last_token = ?, turn = NULL, held_until = NULL WHERE id = ?;

-- :change_pace What was learned of a slot, if nobody has learned more since that version.
UPDATE slot SET pace_version = pace_version + 1, pace = ? WHERE id = ? AND pace_version = ?;

-- :pace What has been learned of a slot.
SELECT pace_version, pace FROM slot WHERE id = ?;

-- :released Slots whose pause or interval is over, at most so many.
SELECT id FROM slot WHERE held_until <= ? ORDER BY held_until LIMIT ?;

-- :release They leave their place.
UPDATE slot SET held_until = NULL WHERE id = ?;

-- :place Where a slot stands, and until when nothing of it is leased.
SELECT turn, held_until, max(paused_until, spaced_until) FROM slot WHERE id = ?;

-- :has_ready Whether anything of a slot is ready.
SELECT 1 FROM work WHERE slot = ? AND state = 0 LIMIT 1;

-- :turn The slot goes to a place in the rotation, or out of it.
UPDATE slot SET turn = ? WHERE id = ?;

-- :hold The slot is held back until its pause or interval is over.
UPDATE slot SET held_until = ? WHERE id = ?;

-- :next_slots The slots whose turn it is, at most so many.
SELECT id, name, pace FROM slot WHERE turn IS NOT NULL ORDER BY turn LIMIT ?;

-- :in_flight How many leases of a slot are in flight.
SELECT count(*) FROM work WHERE slot = ? AND state = 2 AND downloaded = 0;

-- :ready The best elements of a slot.
SELECT id, key, attempts, failures, payload FROM work JOIN body USING (id)
WHERE slot = ? AND state = 0 ORDER BY priority DESC, id LIMIT ?;

-- :lease An element is leased.
UPDATE work SET state = 2, attempts = ?, token = ?, deadline = ?, since = ?, worker = ?, downloaded = 0, not_before = 0 WHERE id = ?;

-- :count Elements pushed or done, and more or fewer that are delayed or dead, by slot and callback.
INSERT INTO tally (slot, callback, pushed, done, delayed, dead) VALUES (?, ?, ?, ?, ?, ?)
ON CONFLICT (slot, callback) DO UPDATE SET pushed = pushed + excluded.pushed, done = done + excluded.done,
delayed = delayed + excluded.delayed, dead = dead + excluded.dead;

-- :is_counted Whether a kind of reason was there before.
SELECT 1 FROM reason WHERE what = ? AND kind = ?;

-- :kinds How many kinds of reasons there are; at most a few hundred.
SELECT count(*) FROM reason;

-- :count_reason Requests queued again or given up.
INSERT INTO reason (what, kind, number) VALUES (?, ?, ?)
ON CONFLICT (what, kind) DO UPDATE SET number = number + excluded.number;

-- :next_delayed When the next delayed element is due.
SELECT min(not_before) FROM work WHERE state = 1;

-- :next_held When the next slot with something ready comes out of its pause or interval.
SELECT min(held_until) FROM slot WHERE held_until IS NOT NULL;
