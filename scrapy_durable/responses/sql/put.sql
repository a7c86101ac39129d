-- Keeps one answer, in place of the earlier one under its key, as the youngest of all.
--
-- :key text, :crawl_id text or null, :status integer, :url text, :fetched_at seconds since the epoch, :body frame
-- :derived what was made of it, behind a checksum, or null
--
-- One statement, one transaction: a crash leaves the earlier answer or the new one.

INSERT OR REPLACE INTO response (key, crawl_id, status, url, fetched_at, body, derived)
VALUES (:key, :crawl_id, :status, :url, :fetched_at, :body, :derived)
