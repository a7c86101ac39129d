-- Removes the oldest shared answers, as far as they were fetched before a given time.
--
-- :rows how many are looked at, :before seconds since the epoch (infinity: whatever their age)
--
-- The count of changed rows tells how many are gone: none, and there is nothing old enough among the oldest. One
-- transaction; a crash leaves all of them or none.

DELETE FROM response
WHERE place IN (SELECT place FROM response WHERE crawl_id IS NULL ORDER BY place LIMIT :rows)
  AND fetched_at < :before
