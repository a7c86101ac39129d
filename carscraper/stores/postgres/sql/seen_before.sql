-- Reads a stretch of the listings on the site that nobody has seen since a crawl began, in the order of their ids.
--
-- %(begun_at)s  when it began
-- %(after)s     id of the last listing of the stretch before, null at first
-- %(rows)s      how many at most
--
-- Rows: id; none at the end. Writes nothing.

SELECT id
FROM cars
WHERE removed_at IS NULL
  AND last_seen < %(begun_at)s
  AND (%(after)s::text IS NULL OR id > %(after)s::text)
ORDER BY id
LIMIT %(rows)s
