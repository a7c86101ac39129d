-- Marks listings on the site that a complete crawl has not seen.
--
-- %(gone)s        their ids
-- %(begun_at)s    when it began; what was seen since, by whomever, stays
-- %(removed_at)s  the time to mark them with
--
-- The count of changed rows tells how many. Locked in the order of the ids, so that no two workers wait for each other.
-- One statement, one transaction: a crash leaves all of these or none.

WITH gone AS MATERIALIZED (
    SELECT cars.id
    FROM cars
    WHERE removed_at IS NULL
      AND last_seen < %(begun_at)s
      AND cars.id = ANY(%(gone)s::text[])
    ORDER BY cars.id
    FOR NO KEY UPDATE OF cars
)
UPDATE cars SET removed_at = %(removed_at)s
FROM gone
WHERE cars.id = gone.id
