-- From layout 2, which noted neither what a crawl is of nor workers' own numbers nor the time, to layout 3; run in one transaction.

-- :identity A crawl that is there was begun without one.
ALTER TABLE crawl ADD COLUMN identity TEXT NOT NULL DEFAULT '';

-- :clock No time was set by yet.
ALTER TABLE crawl ADD COLUMN clock REAL NOT NULL DEFAULT 0;

-- :ahead And so it was ahead of nothing.
ALTER TABLE crawl ADD COLUMN ahead REAL NOT NULL DEFAULT 0;

-- :report No worker has reported anything.
ALTER TABLE worker ADD COLUMN report BLOB;

-- :version The layout that the file has now.
PRAGMA user_version = 3;
