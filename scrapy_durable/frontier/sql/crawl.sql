-- The statements that begin, end and forget a crawl.

-- :begin A crawl begins, when none is there.
INSERT INTO crawl (one, crawl_id, identity, next_id, next_token, next_turn, unfinished, stale)
VALUES (1, ?, ?, 1, 1, 1, 0, 0);

-- :identity What the crawl is of.
SELECT identity FROM crawl;

-- :clock The latest time that was set by, and by how much it was ahead of the machine's.
SELECT clock, ahead FROM crawl;

-- :keep_clock The same, from now on.
UPDATE crawl SET clock = ?, ahead = ?;

-- :drop_limits The limits of who began before.
DELETE FROM slot_limit;

-- :limit The limit of a slot.
INSERT INTO slot_limit (name, cap, interval) VALUES (?, ?, ?);

-- :all_leases Every lease: of a process that is gone, since the file is locked by ours.
UPDATE work SET deadline = 0 WHERE state = 2;

-- :drop_workers Workers that hold nothing, have reported nothing, have no item log and were not heard of since a time.
DELETE FROM worker WHERE last_seen < ? AND report IS NULL AND name NOT IN (SELECT worker FROM work WHERE state = 2)
AND name NOT IN (SELECT worker FROM log);

-- :last_seen When a worker was last heard of.
SELECT last_seen FROM worker WHERE name = ?;

-- :publish The verdict of a crawl, until a time.
INSERT INTO verdict (crawl_id, verdict, expires) VALUES (?, ?, ?)
ON CONFLICT (crawl_id) DO UPDATE SET verdict = excluded.verdict, expires = excluded.expires;

-- :verdict What was published for a crawl and has not expired.
SELECT verdict FROM verdict WHERE crawl_id = ? AND expires > ?;

-- :leave_part Something for the end of the crawl.
INSERT INTO part (name, content) VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET content = excluded.content;

-- :part What was left under a name.
SELECT content FROM part WHERE name = ?;

-- :withdraw The verdict of an earlier end of the same crawl.
DELETE FROM verdict WHERE crawl_id = ?;

-- :prune_verdicts Verdicts that have expired.
DELETE FROM verdict WHERE expires <= ?;

-- :keep_verdict The verdict of a forgotten crawl stays, until a time.
UPDATE verdict SET expires = ? WHERE crawl_id = ?;
