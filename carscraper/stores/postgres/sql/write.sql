-- Writes the readings in the temporary table `incoming`, new listings and changed ones; each of another listing.
--
-- %(spec_missing)s  digest of a specification that could not be had: a listing that has one keeps what is known of it
--
-- `/* columns */` and `/* replaced columns */` are filled in with the typed columns, as `api/columns.py` declares them: what comes
-- from the specification alone stays as it is when that could not be had.
--
-- Rows: id of each that was written. The others are there by now with the same content, or a younger one (of the same
-- millisecond: with a greater digest): another worker was faster since `see_again` was asked.
--
-- In the order of the ids, so that no two workers wait for each other. Part of the transaction that has filled
-- `incoming`: a crash before its commit leaves all as it was; after it, the same readings are found by `see_again`.

INSERT INTO cars (
    id, url, scraped_at, first_seen, last_seen, /* columns */, unread, car_attrs, specs_digest, digest
)
SELECT
    id, url, scraped_at, scraped_at, scraped_at, /* columns */, unread, car_attrs, specs_digest, digest
FROM incoming
ORDER BY id
ON CONFLICT (id) DO UPDATE SET
    removed_at = CASE WHEN excluded.scraped_at > cars.removed_at THEN NULL ELSE cars.removed_at END,
    url = excluded.url,
    scraped_at = excluded.scraped_at,
    last_seen = excluded.last_seen,
    /* replaced columns */,
    unread = excluded.unread,
    car_attrs = excluded.car_attrs,
    specs_digest = CASE
        WHEN excluded.specs_digest = %(spec_missing)s THEN cars.specs_digest ELSE excluded.specs_digest
    END,
    digest = excluded.digest
WHERE (excluded.last_seen, excluded.digest) > (cars.last_seen, cars.digest) AND excluded.digest <> cars.digest
RETURNING id
