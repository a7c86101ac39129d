-- Notes readings that change nothing but times: of a listing whose content is stored, and those older than it:
-- read earlier, or in the same millisecond with a lesser digest.
--
-- %(ids)b      ids, each once
-- %(digests)b  digest of each reading
-- %(times)b    time of each reading
--
-- Rows: id of each that is done with. The others are of new listings, or of changed ones: for `write`.
--
-- The rows are locked in the order of their ids, so that no two workers wait for each other, and are told of also when
-- they change in nothing: a repetition writes nothing. One statement, one transaction: a crash leaves all or none.

WITH known AS MATERIALIZED (
    SELECT cars.id, reading.read_at
    FROM unnest(%(ids)b::text[], %(digests)b::bytea[], %(times)b::timestamptz[]) AS reading (id, digest, read_at)
    JOIN cars ON cars.id = reading.id
    WHERE cars.digest = reading.digest OR (reading.read_at, reading.digest) < (cars.last_seen, cars.digest)
    ORDER BY cars.id
    FOR NO KEY UPDATE OF cars
), moved AS (
    UPDATE cars SET
        last_seen  = greatest(cars.last_seen, known.read_at),
        first_seen = least(cars.first_seen, known.read_at),
        removed_at = CASE
            WHEN known.read_at >= cars.last_seen AND known.read_at > cars.removed_at THEN NULL
            ELSE cars.removed_at
        END
    FROM known
    WHERE cars.id = known.id
      AND (known.read_at > cars.last_seen OR known.read_at < cars.first_seen
           OR (known.read_at = cars.last_seen AND known.read_at > cars.removed_at))
)
SELECT id FROM known
