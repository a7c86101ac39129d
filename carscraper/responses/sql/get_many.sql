-- Looks up many keys at once.
--
-- :keys      JSON list of text
-- :since     seconds since the epoch; only what was fetched after it
-- :crawl_id  text: only what belongs to that crawl; null: only what belongs to none
--
-- Rows: key, status, url, fetched_at, body. Writes nothing.

SELECT r.key, r.status, r.url, r.fetched_at, r.body
FROM json_each(:keys) AS wanted
CROSS JOIN response AS r ON r.key = wanted.value
WHERE r.fetched_at > :since AND r.crawl_id IS :crawl_id
