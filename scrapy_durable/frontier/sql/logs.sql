-- The statements about item logs and the tokens that are remembered for them.

-- :find A log.
SELECT worker, closed, abandoned FROM log WHERE name = ?;

-- :count How many logs there are.
SELECT count(*) FROM log;

-- :join A worker takes a log over, or begins it; it is open again.
INSERT INTO log (name, worker) VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET worker = excluded.worker, closed = 0;

-- :reopen A log that was closed has something to confirm again.
UPDATE log SET closed = 0 WHERE name = ? AND closed = 1;

-- :close A log has confirmed everything.
UPDATE log SET closed = 1 WHERE name = ?;

-- :abandon A log is given up.
UPDATE log SET closed = 1, abandoned = 1 WHERE name = ?;

-- :remember A token was accepted.
INSERT INTO accepted (token, log) VALUES (?, ?);

-- :confirm A log holds the acceptance of a token.
DELETE FROM accepted WHERE token = ? AND log = ?;

-- :drop What is remembered for a log.
DELETE FROM accepted WHERE log = ?;

-- :tokens The tokens of a log, in the order of acceptance.
SELECT token FROM accepted WHERE log = ? ORDER BY id;

-- :unconfirmed How many there are.
SELECT count(*) FROM accepted WHERE log = ?;

-- :list The logs, by name.
SELECT log.name, log.worker, (SELECT count(*) FROM accepted WHERE accepted.log = log.name), closed, abandoned,
       coalesce(last_seen, 0)
FROM log LEFT JOIN worker ON worker.name = log.worker ORDER BY log.name;
