-- Reads a stretch of what one crawl put, in the order of writing.
--
-- :crawl_id text, :after place of the last row of the stretch before (0 at first), :rows how many at most
--
-- Rows: place, key, status, url, fetched_at, body; none at the end. Writes nothing.

SELECT place, key, status, url, fetched_at, body
FROM response
WHERE crawl_id = :crawl_id AND place > :after
ORDER BY place
LIMIT :rows
