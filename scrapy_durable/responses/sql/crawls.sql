-- Lists what is stored of crawls.
--
-- Rows: crawl_id, key, bytes of the body; those of a crawl together, by key. Writes nothing.

SELECT crawl_id, key, length(body)
FROM response
WHERE crawl_id IS NOT NULL
ORDER BY crawl_id, key
