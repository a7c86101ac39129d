-- Looks up many keys at once.
--
-- :keys      JSON list of text
-- :since     seconds since the epoch; only what was fetched after it
-- :crawl_id  text: only what belongs to that crawl; null: only what belongs to none
-- :most      bytes of a packed body that are read at most
--
-- Rows: key, status, url, fetched_at, body; of a longer body its length. Writes nothing.

SELECT r.key, r.status, r.url, r.fetched_at, iif(length(r.body) > :most, length(r.body), r.body)
FROM json_each(:keys) AS wanted
CROSS JOIN response AS r ON r.key = wanted.value
WHERE r.fetched_at > :since AND r.crawl_id IS :crawl_id
