-- The statements that remove a crawl with all it has seen, run in one transaction; verdicts stay.
-- A DELETE without WHERE frees whole pages, whatever the number of rows.

-- :crawl Its own row.
DELETE FROM crawl;

-- :work Elements.
DELETE FROM work;

-- :body Payloads.
DELETE FROM body;

-- :done What was seen.
DELETE FROM done;

-- :slot Slots.
DELETE FROM slot;

-- :callback Callbacks.
DELETE FROM callback;

-- :tally Counts.
DELETE FROM tally;

-- :reason Counts by reason.
DELETE FROM reason;

-- :slot_limit Limits.
DELETE FROM slot_limit;

-- :worker Workers.
DELETE FROM worker;

-- :log Item logs.
DELETE FROM log;

-- :accepted Tokens remembered for them.
DELETE FROM accepted;

-- :part What was left for the end.
DELETE FROM part;
