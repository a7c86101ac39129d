-- Writes the readings in the temporary table `incoming`, new listings and changed ones; each of another listing.
--
-- %(spec_missing)s  digest of a specification that could not be had: a listing that has one keeps what is known of it
--
-- Rows: id of each that was written. The others are there by now with the same content, or a younger one (of the same
-- millisecond: with a greater digest): another worker was faster since `see_again` was asked.
--
-- In the order of the ids, so that no two workers wait for each other. Part of the transaction that has filled
-- `incoming`: a crash before its commit leaves all as it was; after it, the same readings are found by `see_again`.

INSERT INTO cars (
    id, url, scraped_at, first_seen, last_seen, title, make, model, variant, variant_short, year, code,
    new_or_used, condition, price_zar, monthly_price_zar, mileage_km, body_type, colour, fuel_type,
    transmission, vehicle_axle_config, seats, province, agent_name, agent_locality, agent_coord_0,
    agent_coord_1, seller_type, reference, image_count, engine_l, cylinders, gears, driven_wheels, power_kw,
    torque_nm, accel_0_100_s, top_speed_kmh, fuel_l_100km, co2_g_km, fuel_tank_l, fuel_range_km, length_mm,
    width_mm, height_mm, wheelbase_mm, ground_clearance_mm, kerb_weight_kg, airbags, list_price_zar, unread,
    car_attrs, specs_digest, digest
)
SELECT
    id, url, scraped_at, scraped_at, scraped_at, title, make, model, variant, variant_short, year, code,
    new_or_used, condition, price_zar, monthly_price_zar, mileage_km, body_type, colour, fuel_type,
    transmission, vehicle_axle_config, seats, province, agent_name, agent_locality, agent_coord_0,
    agent_coord_1, seller_type, reference, image_count, engine_l, cylinders, gears, driven_wheels, power_kw,
    torque_nm, accel_0_100_s, top_speed_kmh, fuel_l_100km, co2_g_km, fuel_tank_l, fuel_range_km, length_mm,
    width_mm, height_mm, wheelbase_mm, ground_clearance_mm, kerb_weight_kg, airbags, list_price_zar, unread,
    car_attrs, specs_digest, digest
FROM incoming
ORDER BY id
ON CONFLICT (id) DO UPDATE SET
    removed_at          = CASE WHEN excluded.scraped_at > cars.removed_at THEN NULL ELSE cars.removed_at END,
    url                 = excluded.url,
    scraped_at          = excluded.scraped_at,
    last_seen           = excluded.last_seen,
    title               = excluded.title,
    make                = excluded.make,
    model               = excluded.model,
    variant             = excluded.variant,
    variant_short       = excluded.variant_short,
    year                = excluded.year,
    code                = excluded.code,
    new_or_used         = excluded.new_or_used,
    condition           = excluded.condition,
    price_zar           = excluded.price_zar,
    monthly_price_zar   = excluded.monthly_price_zar,
    mileage_km          = excluded.mileage_km,
    body_type           = excluded.body_type,
    colour              = excluded.colour,
    fuel_type           = CASE WHEN excluded.specs_digest = %(spec_missing)s THEN coalesce(excluded.fuel_type, cars.fuel_type) ELSE excluded.fuel_type END,
    transmission        = CASE WHEN excluded.specs_digest = %(spec_missing)s THEN coalesce(excluded.transmission, cars.transmission) ELSE excluded.transmission END,
    vehicle_axle_config = excluded.vehicle_axle_config,
    seats               = CASE WHEN excluded.specs_digest = %(spec_missing)s THEN coalesce(excluded.seats, cars.seats) ELSE excluded.seats END,
    province            = excluded.province,
    agent_name          = excluded.agent_name,
    agent_locality      = excluded.agent_locality,
    agent_coord_0       = excluded.agent_coord_0,
    agent_coord_1       = excluded.agent_coord_1,
    seller_type         = excluded.seller_type,
    reference           = excluded.reference,
    image_count         = excluded.image_count,
    engine_l            = CASE WHEN excluded.specs_digest = %(spec_missing)s THEN cars.engine_l ELSE excluded.engine_l END,
    cylinders           = CASE WHEN excluded.specs_digest = %(spec_missing)s THEN cars.cylinders ELSE excluded.cylinders END,
    gears               = CASE WHEN excluded.specs_digest = %(spec_missing)s THEN cars.gears ELSE excluded.gears END,
    driven_wheels       = CASE WHEN excluded.specs_digest = %(spec_missing)s THEN cars.driven_wheels ELSE excluded.driven_wheels END,
    power_kw            = CASE WHEN excluded.specs_digest = %(spec_missing)s THEN cars.power_kw ELSE excluded.power_kw END,
    torque_nm           = CASE WHEN excluded.specs_digest = %(spec_missing)s THEN cars.torque_nm ELSE excluded.torque_nm END,
    accel_0_100_s       = CASE WHEN excluded.specs_digest = %(spec_missing)s THEN cars.accel_0_100_s ELSE excluded.accel_0_100_s END,
    top_speed_kmh       = CASE WHEN excluded.specs_digest = %(spec_missing)s THEN cars.top_speed_kmh ELSE excluded.top_speed_kmh END,
    fuel_l_100km        = CASE WHEN excluded.specs_digest = %(spec_missing)s THEN cars.fuel_l_100km ELSE excluded.fuel_l_100km END,
    co2_g_km            = CASE WHEN excluded.specs_digest = %(spec_missing)s THEN cars.co2_g_km ELSE excluded.co2_g_km END,
    fuel_tank_l         = CASE WHEN excluded.specs_digest = %(spec_missing)s THEN cars.fuel_tank_l ELSE excluded.fuel_tank_l END,
    fuel_range_km       = CASE WHEN excluded.specs_digest = %(spec_missing)s THEN cars.fuel_range_km ELSE excluded.fuel_range_km END,
    length_mm           = CASE WHEN excluded.specs_digest = %(spec_missing)s THEN cars.length_mm ELSE excluded.length_mm END,
    width_mm            = CASE WHEN excluded.specs_digest = %(spec_missing)s THEN cars.width_mm ELSE excluded.width_mm END,
    height_mm           = CASE WHEN excluded.specs_digest = %(spec_missing)s THEN cars.height_mm ELSE excluded.height_mm END,
    wheelbase_mm        = CASE WHEN excluded.specs_digest = %(spec_missing)s THEN cars.wheelbase_mm ELSE excluded.wheelbase_mm END,
    ground_clearance_mm = CASE WHEN excluded.specs_digest = %(spec_missing)s THEN cars.ground_clearance_mm ELSE excluded.ground_clearance_mm END,
    kerb_weight_kg      = CASE WHEN excluded.specs_digest = %(spec_missing)s THEN cars.kerb_weight_kg ELSE excluded.kerb_weight_kg END,
    airbags             = CASE WHEN excluded.specs_digest = %(spec_missing)s THEN cars.airbags ELSE excluded.airbags END,
    list_price_zar      = CASE WHEN excluded.specs_digest = %(spec_missing)s THEN cars.list_price_zar ELSE excluded.list_price_zar END,
    unread              = excluded.unread,
    car_attrs           = excluded.car_attrs,
    specs_digest        = CASE WHEN excluded.specs_digest = %(spec_missing)s THEN cars.specs_digest ELSE excluded.specs_digest END,
    digest              = excluded.digest
WHERE (excluded.last_seen, excluded.digest) > (cars.last_seen, cars.digest) AND excluded.digest <> cars.digest
RETURNING id
