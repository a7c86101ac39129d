-- Lays out an empty database, in one transaction under a lock. A crash before the commit leaves it empty.
--
-- cars           a row per listing: typed columns, and the raw attributes
-- specs          a row per specification; five listings share one on average
-- price_history  a row per change of a listing's price, added by triggers, so under the lock of the listing's row
-- car_records    the records as they are in cars.json, put together again
-- cars_schema    a row per step of this layout

CREATE TABLE cars_schema (
    version    integer PRIMARY KEY,
    applied_at timestamptz NOT NULL DEFAULT now()
);

CREATE TABLE specs (
    digest bytea PRIMARY KEY,
    groups jsonb NOT NULL
);

-- Moving last_seen is what happens most. It copies the row: hence no index but the key, room on each page
-- (fillfactor), and the raw attributes aside as soon as a row is large (toast_tuple_target); that also makes a walk
-- over the typed columns three times as short. Ids are compared byte by byte, so that they have the same order on
-- every server.
CREATE TABLE cars (
    id                  text COLLATE "C" PRIMARY KEY,
    url                 text NOT NULL,
    scraped_at          timestamptz NOT NULL,
    first_seen          timestamptz NOT NULL,
    last_seen           timestamptz NOT NULL,
    removed_at          timestamptz,
    title               text,
    make                text,
    model               text,
    variant             text,
    variant_short       text,
    year                bigint,
    code                text,
    new_or_used         text,
    condition           text,
    price_zar           bigint,
    monthly_price_zar   double precision,
    mileage_km          bigint,
    body_type           text,
    colour              text,
    fuel_type           text,
    transmission        text,
    vehicle_axle_config text,
    seats               bigint,
    province            text,
    agent_name          text,
    agent_locality      text,
    agent_coord_0       double precision,
    agent_coord_1       double precision,
    seller_type         text,
    reference           text,
    image_count         bigint,
    engine_l            double precision,
    cylinders           bigint,
    gears               bigint,
    driven_wheels       text,
    power_kw            double precision,
    torque_nm           double precision,
    accel_0_100_s       double precision,
    top_speed_kmh       double precision,
    fuel_l_100km        double precision,
    co2_g_km            double precision,
    fuel_tank_l         double precision,
    fuel_range_km       double precision,
    length_mm           double precision,
    width_mm            double precision,
    height_mm           double precision,
    wheelbase_mm        double precision,
    ground_clearance_mm double precision,
    kerb_weight_kg      double precision,
    airbags             bigint,
    list_price_zar      bigint,
    unread              jsonb,
    car_attrs           jsonb NOT NULL,
    specs_digest        bytea NOT NULL REFERENCES specs,
    digest              bytea NOT NULL
) WITH (fillfactor = 90, toast_tuple_target = 512);

-- Where the server can do it: with its default method a new record costs it a seventh more.
DO $$
BEGIN
    EXECUTE 'ALTER TABLE cars ALTER COLUMN car_attrs SET COMPRESSION lz4';
    EXECUTE 'ALTER TABLE specs ALTER COLUMN groups SET COMPRESSION lz4';
EXCEPTION WHEN feature_not_supported OR syntax_error OR invalid_parameter_value THEN
    NULL;
END
$$;

CREATE TABLE price_history (
    listing_id text COLLATE "C",
    seen_at    timestamptz,
    price_zar  bigint,
    PRIMARY KEY (listing_id, seen_at)
);

CREATE FUNCTION note_first_prices() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO price_history (listing_id, seen_at, price_zar)
    SELECT id, scraped_at, price_zar FROM added WHERE price_zar IS NOT NULL
    ON CONFLICT (listing_id, seen_at) DO UPDATE SET price_zar = excluded.price_zar;
    RETURN NULL;
END
$$;

CREATE TRIGGER first_price AFTER INSERT ON cars REFERENCING NEW TABLE AS added
FOR EACH STATEMENT EXECUTE FUNCTION note_first_prices();

CREATE FUNCTION note_next_price() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO price_history (listing_id, seen_at, price_zar) VALUES (NEW.id, NEW.scraped_at, NEW.price_zar)
    ON CONFLICT (listing_id, seen_at) DO UPDATE SET price_zar = excluded.price_zar;
    RETURN NULL;
END
$$;

CREATE TRIGGER next_price AFTER UPDATE OF price_zar ON cars
FOR EACH ROW WHEN (NEW.price_zar IS DISTINCT FROM OLD.price_zar) EXECUTE FUNCTION note_next_price();

CREATE VIEW car_records AS
SELECT id, url, scraped_at, car_attrs, groups AS car_specs, first_seen, last_seen, removed_at
FROM cars JOIN specs ON specs.digest = cars.specs_digest;

INSERT INTO cars_schema (version) VALUES (1);

COMMENT ON TABLE cars_schema IS 'Steps by which this layout was made';
COMMENT ON COLUMN cars_schema.version IS 'Number of the step';
COMMENT ON COLUMN cars_schema.applied_at IS 'When it was made';

COMMENT ON TABLE specs IS 'Specifications, each once';
COMMENT ON COLUMN specs.digest IS 'BLAKE2b of the JSON as it came; what cars.specs_digest leads to';
COMMENT ON COLUMN specs.groups IS 'Groups of labels and values, as the API gave them; empty when it has none';

COMMENT ON TABLE price_history IS 'A row for each change of a listing''s price, and one for its first price';
COMMENT ON COLUMN price_history.listing_id IS 'cars.id';
COMMENT ON COLUMN price_history.seen_at IS 'When the price was first read';
COMMENT ON COLUMN price_history.price_zar IS 'In rand; null: there is none any more';

COMMENT ON VIEW car_records IS 'The records as they are in cars.json, and when the listings were seen';
COMMENT ON TABLE cars IS 'One row per listing, as it was last read when it differed from before';
COMMENT ON COLUMN cars.id IS 'The API''s identifier of the listing';
COMMENT ON COLUMN cars.url IS 'Address of the listing''s page for people; empty when the API gave none';
COMMENT ON COLUMN cars.scraped_at IS 'When it was read as it stands here';
COMMENT ON COLUMN cars.first_seen IS 'When it was first read';
COMMENT ON COLUMN cars.last_seen IS 'When it was last read, changed or not';
COMMENT ON COLUMN cars.removed_at IS 'When a complete crawl no longer saw it; null while it is on the site';
COMMENT ON COLUMN cars.title IS 'Headline of the listing, as in 2017 Audi A4 1.4 TFSI Sport Auto';
COMMENT ON COLUMN cars.make IS 'As in Audi';
COMMENT ON COLUMN cars.model IS 'As in A4';
COMMENT ON COLUMN cars.variant IS 'As in 1.4 TFSI Sport Auto';
COMMENT ON COLUMN cars.variant_short IS 'The variant as the API shortens it';
COMMENT ON COLUMN cars.year IS 'Model year, 1900 to 2100';
COMMENT ON COLUMN cars.code IS 'The API''s code of the variant; with the year, what the specification is known by';
COMMENT ON COLUMN cars.new_or_used IS 'New or Used; others are possible';
COMMENT ON COLUMN cars.condition IS 'As the API words it';
COMMENT ON COLUMN cars.price_zar IS 'Asking price in rand, whole; one with cents is not read';
COMMENT ON COLUMN cars.monthly_price_zar IS 'Instalment in rand a month, as the API estimates it';
COMMENT ON COLUMN cars.mileage_km IS 'Kilometres driven; 0 is a reading, not a null';
COMMENT ON COLUMN cars.body_type IS 'As in Sedan';
COMMENT ON COLUMN cars.colour IS 'As the seller words it';
COMMENT ON COLUMN cars.fuel_type IS 'As in Petrol';
COMMENT ON COLUMN cars.transmission IS 'Manual or Automatic';
COMMENT ON COLUMN cars.vehicle_axle_config IS 'As in 4X4';
COMMENT ON COLUMN cars.seats IS 'Of the listing; of the specification when the listing does not tell';
COMMENT ON COLUMN cars.province IS 'As the API spells it';
COMMENT ON COLUMN cars.agent_name IS 'Who sells';
COMMENT ON COLUMN cars.agent_locality IS 'Town or suburb of the seller';
COMMENT ON COLUMN cars.agent_coord_0 IS 'First coordinate of the seller in degrees; which one, the API does not say';
COMMENT ON COLUMN cars.agent_coord_1 IS 'Second coordinate of the seller in degrees';
COMMENT ON COLUMN cars.seller_type IS 'As the API words it';
COMMENT ON COLUMN cars.reference IS 'The seller''s own number of the car';
COMMENT ON COLUMN cars.image_count IS 'How many pictures the listing has';
COMMENT ON COLUMN cars.engine_l IS 'Displacement in litres';
COMMENT ON COLUMN cars.cylinders IS 'Number of cylinders';
COMMENT ON COLUMN cars.gears IS 'Number of gear ratios';
COMMENT ON COLUMN cars.driven_wheels IS 'front, rear or all, as the API words it';
COMMENT ON COLUMN cars.power_kw IS 'Greatest power in kilowatts';
COMMENT ON COLUMN cars.torque_nm IS 'Greatest torque in newton metres';
COMMENT ON COLUMN cars.accel_0_100_s IS 'Seconds from 0 to 100 km/h';
COMMENT ON COLUMN cars.top_speed_kmh IS 'In kilometres an hour';
COMMENT ON COLUMN cars.fuel_l_100km IS 'Average consumption in litres per 100 km';
COMMENT ON COLUMN cars.co2_g_km IS 'Grams of carbon dioxide per kilometre';
COMMENT ON COLUMN cars.fuel_tank_l IS 'Capacity of the tank in litres';
COMMENT ON COLUMN cars.fuel_range_km IS 'Kilometres with one tank';
COMMENT ON COLUMN cars.length_mm IS 'In millimetres';
COMMENT ON COLUMN cars.width_mm IS 'In millimetres';
COMMENT ON COLUMN cars.height_mm IS 'In millimetres';
COMMENT ON COLUMN cars.wheelbase_mm IS 'In millimetres';
COMMENT ON COLUMN cars.ground_clearance_mm IS 'In millimetres';
COMMENT ON COLUMN cars.kerb_weight_kg IS 'In kilograms';
COMMENT ON COLUMN cars.airbags IS 'Number of airbags';
COMMENT ON COLUMN cars.list_price_zar IS 'Price in rand that the specification names, that of the car when new';
COMMENT ON COLUMN cars.unread IS 'Raw values of the columns that are null only because the value could not be read';
COMMENT ON COLUMN cars.car_attrs IS 'The listing''s attributes as the API gave them';
COMMENT ON COLUMN cars.specs_digest IS 'Which of the specs it has';
COMMENT ON COLUMN cars.digest IS 'BLAKE2b of URL, raw record and typed columns: the same when none has changed';
