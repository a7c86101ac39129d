-- Of each key of an item, the first place in the item log that counts.

-- :schema Lays out an empty file. A crash before the end leaves one without `about`, which is made anew.
BEGIN IMMEDIATE;
CREATE TABLE first (
    key     TEXT PRIMARY KEY,
    segment INTEGER NOT NULL,  -- of the log: behind the acceptance of the item's lease; 0: it is in another worker's log
    offset  INTEGER NOT NULL,  -- in bytes, in that segment
    number  INTEGER NOT NULL   -- among the items of the lease, from 0
) WITHOUT ROWID;
CREATE TABLE about (log TEXT NOT NULL);  -- the name of the log
COMMIT;

-- :describe Whose places these are.
INSERT INTO about (log) VALUES (?);

-- :log Of which log they are.
SELECT log FROM about;

-- :find The place of a key.
SELECT segment, offset, number FROM first WHERE key = ?;

-- :add A key that was not there, and its place.
INSERT INTO first (key, segment, offset, number) VALUES (?, ?, ?, ?);
