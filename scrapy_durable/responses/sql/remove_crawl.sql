-- Removes answers of one crawl.
--
-- :crawl_id text, :rows how many at most
--
-- The count of changed rows tells how many are gone; none, and there are none left. One transaction; a crash
-- leaves all of them or none.

DELETE FROM response
WHERE place IN (SELECT place FROM response WHERE crawl_id = :crawl_id LIMIT :rows)
