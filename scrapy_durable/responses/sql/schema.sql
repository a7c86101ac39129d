-- Lays out an empty file as a response store, in one transaction. Running it twice changes nothing.
--
-- application_id  0x43615273 ("CaRs"): the file is a response store of ours
-- user_version    version of this layout; a higher one is never opened
--
-- A crash before COMMIT leaves an empty file, which the next opening lays out.

BEGIN IMMEDIATE;

CREATE TABLE IF NOT EXISTS response (
    place      INTEGER PRIMARY KEY,  -- order of writing: the lowest is the oldest
    key        TEXT NOT NULL UNIQUE,
    crawl_id   TEXT,                 -- the crawl that it belongs to; null: shared
    status     INTEGER NOT NULL,     -- HTTP status
    url        TEXT NOT NULL,
    fetched_at REAL NOT NULL,        -- seconds since the epoch
    body       BLOB NOT NULL,        -- one Zstandard frame with length and checksum
    derived    BLOB                  -- null, or what its spider made of it: CRC-32 of key and rest, and that packed
);

CREATE INDEX IF NOT EXISTS response_of_crawl ON response (crawl_id) WHERE crawl_id IS NOT NULL;

PRAGMA application_id = 1130451571;
PRAGMA user_version = 1;

COMMIT;
