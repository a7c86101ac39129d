-- Writes the readings in the temporary table `incoming`, new listings and changed ones; each of another listing.
--
-- No arguments
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
    fuel_type           = excluded.fuel_type,
    transmission        = excluded.transmission,
    vehicle_axle_config = excluded.vehicle_axle_config,
    seats               = excluded.seats,
    province            = excluded.province,
    agent_name          = excluded.agent_name,
    agent_locality      = excluded.agent_locality,
    agent_coord_0       = excluded.agent_coord_0,
    agent_coord_1       = excluded.agent_coord_1,
    seller_type         = excluded.seller_type,
    reference           = excluded.reference,
    image_count         = excluded.image_count,
    engine_l            = excluded.engine_l,
    cylinders           = excluded.cylinders,
    gears               = excluded.gears,
    driven_wheels       = excluded.driven_wheels,
    power_kw            = excluded.power_kw,
    torque_nm           = excluded.torque_nm,
    accel_0_100_s       = excluded.accel_0_100_s,
    top_speed_kmh       = excluded.top_speed_kmh,
    fuel_l_100km        = excluded.fuel_l_100km,
    co2_g_km            = excluded.co2_g_km,
    fuel_tank_l         = excluded.fuel_tank_l,
    fuel_range_km       = excluded.fuel_range_km,
    length_mm           = excluded.length_mm,
    width_mm            = excluded.width_mm,
    height_mm           = excluded.height_mm,
    wheelbase_mm        = excluded.wheelbase_mm,
    ground_clearance_mm = excluded.ground_clearance_mm,
    kerb_weight_kg      = excluded.kerb_weight_kg,
    airbags             = excluded.airbags,
    list_price_zar      = excluded.list_price_zar,
    unread              = excluded.unread,
    car_attrs           = excluded.car_attrs,
    specs_digest        = excluded.specs_digest,
    digest              = excluded.digest
WHERE (excluded.last_seen, excluded.digest) > (cars.last_seen, cars.digest) AND excluded.digest <> cars.digest
RETURNING id
