-- Lists the keys of what one crawl put.
--
-- :crawl_id text
--
-- Rows: key, in order. Writes nothing.

SELECT key
FROM response
WHERE crawl_id = :crawl_id
ORDER BY key
