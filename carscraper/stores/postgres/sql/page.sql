-- Reads a stretch of the listings in the order of their ids.
--
-- %(after)s  id of the last listing of the stretch before, null at first
-- %(rows)s   how many at most
--
-- Rows: id, url, scraped_at, car_attrs, car_specs, first_seen, last_seen, removed_at; none at the end. Writes nothing.

SELECT id, url, scraped_at, car_attrs, car_specs, first_seen, last_seen, removed_at
FROM car_records
WHERE %(after)s::text IS NULL OR id > %(after)s::text
ORDER BY id
LIMIT %(rows)s
