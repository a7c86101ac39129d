"""The typed columns of a car, declared: a line each, of which rows, tables, databases and docs are made.

A new one goes to the end, where `ALTER TABLE` puts it; CONTRIBUTING.md tells the rest.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

from carscraper.api.deviations import coerced_code, coerced_year
from carscraper.api.endpoints import FIRST_YEAR, LAST_YEAR
from carscraper.api.quantities import MOST, Unit

Kind: TypeAlias = type[str] | type[int] | type[float]


@dataclass(frozen=True, slots=True)
class Column:
    """What a column is called, holds and is made of: of the listing, of the specification where that does not tell, or
    of the specification alone. Every column may hold null.
    """

    name: str
    kind: Kind
    meaning: str
    """For people, in `docs/columns.md`; empty where name and unit say it all."""
    attribute: str | None = None
    """Of the listing; with a point, a field within it. None when only the specification tells."""
    labels: tuple[str, ...] = ()
    """Of the specification, in any case of letters, the best first; after the attribute."""
    unit: Unit | None = None
    """Of a text that tells a quantity; None for other texts, and for what is a number in JSON."""
    measured_in: str = ""
    """For people, where a number in JSON has a unit."""
    least: int = 0
    most: int = MOST
    """Bounds of a number in JSON; one beyond is not read."""
    zero_is_null: bool = False
    coerced: Callable[[Any], Any] | None = None
    """Applied to the raw value of an attribute first, without loss."""


def _text(name: str, meaning: str, *labels: str, **more: Any) -> Column:
    """A text, under the attribute of the same name."""
    return Column(name, str, meaning, name, labels, **more)


def _number(name: str, kind: Kind, attribute: str, measured_in: str, meaning: str, **more: Any) -> Column:
    """A number in JSON."""
    return Column(name, kind, meaning, attribute, measured_in=measured_in, **more)


def _quantity(
    name: str, kind: Kind, unit: Unit, meaning: str, *labels: str, attribute: str | None = None
) -> Column:
    """A text that tells a number and its unit, of the specification unless an attribute is named."""
    return Column(name, kind, meaning, attribute, labels, unit)


_OF_THE_LISTING_FIRST = "of the specification when the listing does not tell."

DECLARED = (
    _text("title", "Headline, as in `2017 Audi A4 1.4 TFSI Sport Auto`."),
    _text("make", "As in `Audi`."),
    _text("model", "As in `A4`."),
    _text("variant", "As in `1.4 TFSI Sport Auto`."),
    _text("variant_short", "The variant as the API shortens it."),
    _number("year", int, "year", "year", "Model year, 1900 to 2100.",
            least=FIRST_YEAR, most=LAST_YEAR, coerced=coerced_year),
    _text("code", "The API's code of the variant; with the year, what cars share a specification by.",
          coerced=coerced_code),
    _text("new_or_used", "`New` or `Used`; others are possible."),
    _text("condition", "As the API words it."),
    _number("price_zar", int, "price", "rand", "Asking price; one with cents is not read."),
    _number("monthly_price_zar", float, "monthly_price", "rand a month",
            "Instalment, as the API estimates it; 0 is a null.", zero_is_null=True),
    _quantity("mileage_km", int, "km", "Distance driven; 0 is a reading, not a null.", attribute="mileage"),
    _text("body_type", "As in `Sedan`."),
    _text("colour", "As the seller words it."),
    _text("fuel_type", f"As in `Petrol`; {_OF_THE_LISTING_FIRST}", "Fuel Type"),
    _text("transmission", f"`Manual` or `Automatic`; {_OF_THE_LISTING_FIRST}", "Transmission type"),
    _text("vehicle_axle_config", "As in `4X4`."),
    _quantity("seats", int, "", f"Of the listing; {_OF_THE_LISTING_FIRST}", "Seats quantity", attribute="seats"),
    _text("province", "As the API spells it."),
    _text("agent_name", "Who sells."),
    _text("agent_locality", "Town or suburb of the seller."),
    _number("agent_coord_0", float, "agent_coords_0_coord", "degrees",
            "First coordinate of the seller; which one it is, the API does not say.", least=-180, most=180),
    _number("agent_coord_1", float, "agent_coords_1_coord", "degrees", "The second.", least=-180, most=180),
    _text("seller_type", "As the API words it."),
    _text("reference", "The seller's own number of the car."),
    _number("image_count", int, "image.count", "pictures", "How many pictures the listing has."),
    _quantity("engine_l", float, "l", "Displacement; cubic centimetres are turned into litres.",
              "Engine Size", "Engine Capacity"),
    _quantity("cylinders", int, "", "How many.", "Cylinders"),
    _quantity("gears", int, "", "How many.", "Gear ratios quantity"),
    Column("driven_wheels", str, "`front`, `rear` or `all`.", labels=("Driven Wheels",)),
    _quantity("power_kw", float, "kW", "Greatest power.", "Power Maximum Total", "Power Max"),
    _quantity("torque_nm", float, "Nm", "Greatest torque.", "Torque Max"),
    _quantity("accel_0_100_s", float, "s", "From standstill to 100 km/h.", "0-100Kph"),
    _quantity("top_speed_kmh", float, "km/h", "", "Top speed"),
    _quantity("fuel_l_100km", float, "l/100km", "Average consumption.", "Average Fuel Economy", "Average"),
    _quantity("co2_g_km", float, "g/km", "Carbon dioxide.", "Co2"),
    _quantity("fuel_tank_l", float, "l", "Capacity of the tank.", "Fuel tank capacity"),
    _quantity("fuel_range_km", float, "km", "With one tank.", "Fuel range"),
    _quantity("length_mm", float, "mm", "", "Length"),
    _quantity("width_mm", float, "mm", "", "Width"),
    _quantity("height_mm", float, "mm", "", "Height"),
    _quantity("wheelbase_mm", float, "mm", "", "Wheelbase"),
    _quantity("ground_clearance_mm", float, "mm", "", "Ground clearance"),
    _quantity("kerb_weight_kg", float, "kg", "", "Kerb Weight"),
    _quantity("airbags", int, "", "How many.", "Airbags quantity"),
    _quantity("list_price_zar", int, "R", "Price that the specification names, that of the car when new.",
              "Price"),
)  # fmt: skip

COLUMNS: dict[str, Kind] = {column.name: column.kind for column in DECLARED}
"""Name and type of each column, in order."""
