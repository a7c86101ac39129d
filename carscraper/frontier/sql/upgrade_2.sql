-- From layout 2, which noted neither what a crawl is of nor workers' own numbers, to layout 3; run in one transaction.

-- :identity A crawl that is there was begun without one.
ALTER TABLE crawl ADD COLUMN identity TEXT NOT NULL DEFAULT '';

-- :report No worker has reported anything.
ALTER TABLE worker ADD COLUMN report BLOB;

-- :version The layout that the file has now.
PRAGMA user_version = 3;
