-- An address that is none is null; one price of a listing in a millisecond; two columns that have a second source.
--
-- In one transaction under a lock. A crash before the commit leaves the layout as it was.

ALTER TABLE cars ALTER COLUMN url DROP NOT NULL;
UPDATE cars SET url = NULL WHERE url !~* '^https?://[^[:space:]/?#]';

-- As before, but that a record without an address has an empty one.
CREATE OR REPLACE VIEW car_records AS
SELECT id, coalesce(url, '') AS url, scraped_at, car_attrs, groups AS car_specs, first_seen, last_seen, removed_at
FROM cars JOIN specs ON specs.digest = cars.specs_digest;

-- Of two readings in the same millisecond the row has the one with the greater digest, and the history the price of
-- that one; none when the price before is the same.
CREATE OR REPLACE FUNCTION note_next_price() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM price_history WHERE listing_id = NEW.id AND seen_at = NEW.scraped_at;
    INSERT INTO price_history (listing_id, seen_at, price_zar)
    SELECT NEW.id, NEW.scraped_at, NEW.price_zar
    WHERE NEW.price_zar IS DISTINCT FROM (
        SELECT price_zar FROM price_history
        WHERE listing_id = NEW.id AND seen_at < NEW.scraped_at ORDER BY seen_at DESC LIMIT 1
    );
    RETURN NULL;
END
$$;

INSERT INTO cars_schema (version) VALUES (2);

COMMENT ON COLUMN cars.url IS 'Address of the listing''s page for people, http or https; null when the API gave none';
COMMENT ON COLUMN cars.monthly_price_zar IS 'Instalment in rand a month, as the API estimates it; null when it is 0';
COMMENT ON COLUMN cars.fuel_type IS 'As in Petrol; of the specification when the listing does not tell';
COMMENT ON COLUMN cars.transmission IS 'Manual or Automatic; of the specification when the listing does not tell';
