-- Looks up many keys at once.
--
-- :keys      JSON list of text
-- :since     seconds since the epoch; only what was fetched after it
-- :crawl_id  text: only what belongs to that crawl; null: only what belongs to none
-- :most      bytes of a packed body that are read at most
--
-- :most_derived  bytes of what was made of an answer that are read at most
--
-- Rows: key, status, url, fetched_at, body, derived; of a longer body its length, of what is longer there null. Writes
-- nothing.
--
-- The key is that of the row, not of the index that has led to it: SQLite does not notice a damaged index.

SELECT r.key, r.status, r.url, r.fetched_at, iif(length(r.body) > :most, length(r.body), r.body),
       iif(length(r.derived) <= :most_derived, CAST(r.derived AS BLOB), NULL)
FROM json_each(:keys) AS wanted
CROSS JOIN response AS indexed ON indexed.key = wanted.value
CROSS JOIN response AS r ON r.place = indexed.place AND r.key = wanted.value
WHERE r.fetched_at > :since AND r.crawl_id IS :crawl_id
