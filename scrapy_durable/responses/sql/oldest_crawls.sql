-- Lists the crawls, the one first that has put its last answer first.
--
-- Rows: crawl_id, when its last answer was fetched (seconds since the epoch). Writes nothing.

SELECT crawl_id, max(fetched_at)
FROM response
WHERE crawl_id IS NOT NULL
GROUP BY crawl_id
ORDER BY 2
