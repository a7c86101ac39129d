"""Text with units turned into numbers and nulls, and one flat, typed row per car made of them.

What is read is exactly what is known to occur; anything else is not guessed at but named, with its raw
text, so that a new spelling is seen in the figures of a crawl and added here on purpose.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields
from functools import lru_cache
from typing import Any, Literal

from carscraper.api.body import shown
from carscraper.api.deviations import coerced_code, coerced_year
from carscraper.api.endpoints import FIRST_YEAR, LAST_YEAR, web_url
from carscraper.exceptions import ApiError

Unit = Literal["kW", "Nm", "s", "km/h", "l/100km", "g/km", "km", "R", "l", "mm", "kg", ""]
"""What a quantity is measured in; the empty one is for counts."""

NULLS = frozenset({"", "-", "n/a", "none"})
"""Texts that say that there is no value, in lower case."""

_SPELLINGS: dict[Unit, dict[str, float]] = {
    "kW": {"kw": 1},
    "Nm": {"nm": 1},
    "s": {"s": 1, "sec": 1, "seconds": 1},
    "km/h": {"km/h": 1, "kmh": 1, "kph": 1},
    "l/100km": {"l/100km": 1, "l/100 km": 1},
    "g/km": {"g/km": 1},
    "km": {"km": 1, "kms": 1},
    "R": {"r": 1, "zar": 1},
    "l": {"l": 1, "cc": 0.001, "cm³": 0.001, "cm3": 0.001},
    "mm": {"mm": 1},
    "kg": {"kg": 1},
    "": {"": 1},
}
"""How each unit is written, in lower case, and how many of the unit one of it is."""

_FINE = frozenset({"s", "l/100km", "l"})
"""Units of which a car has few: fractions are likely, thousands are not. For the others, the reverse."""

_MOST = 10**12
"""No car has more of anything; what is above is no quantity."""

_LONGEST = 60
"""Characters; what is longer is no quantity."""

_NUMBER = re.compile(
    r"""(?P<whole> [1-9][0-9]{0,2}(?:[ ][0-9]{3})+         # 38 329
                 | [1-9][0-9]{0,2}(?:,[0-9]{3})+(?![0-9])  # 38,329
                 | [0-9]{1,12} )                           # 38329
        (?:(?P<point>[.,])(?P<part>[0-9]{1,6}))?""",
    re.VERBOSE,
)
_UNREADABLE = object()


def read_quantity(text: str, unit: Unit) -> int | float | None:
    """The number that the text tells: an int when it is written without a fraction, None for one of `NULLS`.

    Thousands may be set apart by spaces of any kind or by commas; a fraction follows a point or a comma.
    The unit must be there, in any case of letters: before the number for `R`, behind it for the others.

    Raises `ApiError`, its path empty, for all else: another unit, a range, a sign, a bare number where a
    unit is due, and what can be read in two ways, such as `8,500 s` or `38.329 km`.
    """
    value = _read(text, unit)
    if value is _UNREADABLE:
        raise ApiError("", f"{shown(text)} is no quantity in {unit or 'pieces'}")
    return value  # type: ignore[return-value]


def _read(text: str, unit: Unit) -> object:
    if len(text) > _LONGEST:
        return _UNREADABLE
    plain = " ".join(text.split()).casefold()
    if plain in NULLS:
        return None
    match = _NUMBER.search(plain)
    if not match:
        return _UNREADABLE
    before, behind = plain[: match.start()].rstrip(), plain[match.end() :].lstrip()
    mark, rest = (before, behind) if unit == "R" else (behind, before)
    factor = _SPELLINGS[unit].get(mark)
    if factor is None or rest:
        return _UNREADABLE
    number = _number(match["whole"], match["point"], match["part"], fine=unit in _FINE and factor == 1)
    if number is None or number > _MOST:
        return _UNREADABLE
    return number if factor == 1 else round(number * factor, 6)


def _number(whole: str, point: str | None, part: str | None, *, fine: bool) -> int | float | None:
    """None when the digits can be read in two ways."""
    if part is None:
        if fine and whole.count(",") == 1:
            return None  # 8,500 s: thousands, or a fraction
        return int(whole.replace(" ", "").replace(",", ""))
    if point == "," and "," in whole:
        return None  # 1,234,5
    if len(part) == 3 and not fine and whole.isdigit():
        return None  # 38.329 km: a fraction, or thousands
    return float(f"{whole.replace(' ', '').replace(',', '')}.{part}")


@dataclass(slots=True)
class TypedRow:
    """One car as a flat row: columns in this order, None where the API gives no value or none that is read.

    Beside it stand the listing's id, its URL and its times. Left out, since only the raw record does them
    justice: description, options, the image's address, and codes whose meaning is not known. (Not frozen: to make
    one would take more than twice as long.)
    """

    title: str | None
    """Headline of the listing, as in `2017 Audi A4 1.4 TFSI Sport Auto`."""
    make: str | None
    """As in `Audi`."""
    model: str | None
    """As in `A4`."""
    variant: str | None
    """As in `1.4 TFSI Sport Auto`."""
    variant_short: str | None
    """The variant as the API shortens it."""
    year: int | None
    """Model year, 1900 to 2100."""
    code: str | None
    """The API's code of the variant; with the year, what the specification is known by."""
    new_or_used: str | None
    """`New` or `Used`; others are possible."""
    condition: str | None
    """As the API words it."""
    price_zar: int | None
    """Asking price in rand, whole; one with cents is not read."""
    monthly_price_zar: float | None
    """Instalment in rand a month, as the API estimates it; 0 is a null: there is none."""
    mileage_km: int | None
    """Kilometres driven; 0 is a reading, not a null."""
    body_type: str | None
    """As in `Sedan`."""
    colour: str | None
    """As the seller words it."""
    fuel_type: str | None
    """As in `Petrol`; of the specification when the listing does not tell."""
    transmission: str | None
    """`Manual` or `Automatic`; of the specification when the listing does not tell."""
    vehicle_axle_config: str | None
    """As in `4X4`."""
    seats: int | None
    """Of the listing; of the specification when the listing does not tell."""
    province: str | None
    """As the API spells it."""
    agent_name: str | None
    """Who sells."""
    agent_locality: str | None
    """Town or suburb of the seller."""
    agent_coord_0: float | None
    """First coordinate of the seller in degrees; which one it is, the API does not say."""
    agent_coord_1: float | None
    """Second coordinate of the seller in degrees."""
    seller_type: str | None
    """As the API words it."""
    reference: str | None
    """The seller's own number of the car."""
    image_count: int | None
    """How many pictures the listing has."""
    engine_l: float | None
    """Displacement in litres."""
    cylinders: int | None
    """Number of cylinders."""
    gears: int | None
    """Number of gear ratios."""
    driven_wheels: str | None
    """`front`, `rear` or `all`, as the API words it."""
    power_kw: float | None
    """Greatest power in kilowatts."""
    torque_nm: float | None
    """Greatest torque in newton metres."""
    accel_0_100_s: float | None
    """Seconds from 0 to 100 km/h."""
    top_speed_kmh: float | None
    """In kilometres an hour."""
    fuel_l_100km: float | None
    """Average consumption in litres per 100 km."""
    co2_g_km: float | None
    """Grams of carbon dioxide per kilometre."""
    fuel_tank_l: float | None
    """Capacity of the tank in litres."""
    fuel_range_km: float | None
    """Kilometres with one tank."""
    length_mm: float | None
    """In millimetres."""
    width_mm: float | None
    """In millimetres."""
    height_mm: float | None
    """In millimetres."""
    wheelbase_mm: float | None
    """In millimetres."""
    ground_clearance_mm: float | None
    """In millimetres."""
    kerb_weight_kg: float | None
    """In kilograms."""
    airbags: int | None
    """Number of airbags."""
    list_price_zar: int | None
    """Price in rand that the specification names, that of the car when new."""
    unread: dict[str, Any] = field(default_factory=dict, compare=False)
    """Not a column: the raw value of each column that is None only because it could not be read; of `url`, the
    address that is none of a page, too.
    """


COLUMNS: dict[str, type[str] | type[int] | type[float]] = {
    column.name: {"str": str, "int": int, "float": float}[str(column.type).split(" ", 1)[0]]
    for column in fields(TypedRow)
    if column.name != "unread"
}
"""Name and type of each column, in order; every column may hold null."""

_QUANTITIES: dict[str, tuple[Unit, tuple[str, ...]]] = {
    "engine_l": ("l", ("Engine Size", "Engine Capacity")),
    "cylinders": ("", ("Cylinders",)),
    "gears": ("", ("Gear ratios quantity",)),
    "power_kw": ("kW", ("Power Maximum Total", "Power Max")),
    "torque_nm": ("Nm", ("Torque Max",)),
    "accel_0_100_s": ("s", ("0-100Kph",)),
    "top_speed_kmh": ("km/h", ("Top speed",)),
    "fuel_l_100km": ("l/100km", ("Average Fuel Economy", "Average")),
    "co2_g_km": ("g/km", ("Co2",)),
    "fuel_tank_l": ("l", ("Fuel tank capacity",)),
    "fuel_range_km": ("km", ("Fuel range",)),
    "length_mm": ("mm", ("Length",)),
    "width_mm": ("mm", ("Width",)),
    "height_mm": ("mm", ("Height",)),
    "wheelbase_mm": ("mm", ("Wheelbase",)),
    "ground_clearance_mm": ("mm", ("Ground clearance",)),
    "kerb_weight_kg": ("kg", ("Kerb Weight",)),
    "airbags": ("", ("Airbags quantity",)),
    "list_price_zar": ("R", ("Price",)),
}
"""Column of the specification, its unit, and the labels it is looked for under, the best first."""

_TEXTS = (
    "title", "make", "model", "variant", "variant_short", "code", "new_or_used", "condition", "body_type",
    "colour", "fuel_type", "transmission", "vehicle_axle_config", "province", "agent_name",
    "agent_locality", "seller_type", "reference",
)  # fmt: skip
"""Columns that hold an attribute's text, under the attribute's name."""


@dataclass(frozen=True, slots=True)
class Source:
    """What a column is made of."""

    attribute: str | None
    """Of the listing; with a point, a field within it. None when only the specification tells."""
    labels: tuple[str, ...]
    """Of the specification, in any case of letters, the best first; after the attribute."""


_ATTRIBUTES = {
    **dict(zip(_TEXTS, _TEXTS, strict=True)),
    "year": "year",
    "price_zar": "price",
    "monthly_price_zar": "monthly_price",
    "mileage_km": "mileage",
    "seats": "seats",
    "agent_coord_0": "agent_coords_0_coord",
    "agent_coord_1": "agent_coords_1_coord",
    "image_count": "image.count",
}

_DRIVEN_WHEELS = "Driven Wheels"

_FALLBACKS = {
    "fuel_type": "Fuel Type",
    "transmission": "Transmission type",
    "seats": "Seats quantity",
}
"""Column of the listing, and the label that tells where the listing does not."""

_LABELS = {
    **{column: (label,) for column, label in _FALLBACKS.items()},
    "driven_wheels": (_DRIVEN_WHEELS,),
    **{column: labels for column, (_, labels) in _QUANTITIES.items()},
}

SOURCES = {column: Source(_ATTRIBUTES.get(column), _LABELS.get(column, ())) for column in COLUMNS}
"""Where each column comes from."""


@dataclass(frozen=True, slots=True)
class SpecColumns:
    """What a specification says of every car that has it, made once for all of them by `spec_columns`."""

    values: dict[str, Any]
    """The columns that come from the specification alone, in their order."""
    unread: dict[str, Any]
    """Of those columns, as in `TypedRow.unread`."""
    fallbacks: dict[str, tuple[Any, ...]]
    """Raw values of the columns in `_FALLBACKS`, for the listings that do not tell."""


def spec_columns(specs: Iterable[Any] | None) -> SpecColumns:
    """What the groups of a specification, as the API gave them, say of every car that has it; nothing when they could
    not be had (None). What is no group, or none of label and value, says nothing.
    """
    told: dict[str, list[Any]] = {}
    for group in specs or ():
        attrs = group.get("attrs") if type(group) is dict else None
        for attr in attrs if type(attrs) is list else ():
            label = attr.get("label") if type(attr) is dict else None
            known = _known_label(label) if type(label) is str and len(label) <= _LONGEST else None
            if known is not None:
                told.setdefault(known, []).append(attr.get("value"))
    read = _Reader()
    values: dict[str, Any] = {
        "driven_wheels": read.first_text("driven_wheels", told.get(_DRIVEN_WHEELS.casefold(), ()))
    }
    for column, labels in _WANTED:
        values[column] = read.quantity(column, [raw for label in labels for raw in told.get(label, ())])
    fallbacks = {column: tuple(told.get(label.casefold(), ())) for column, label in _FALLBACKS.items()}
    return SpecColumns(values, read.unread, fallbacks)


def typed_row(attributes: Mapping[str, Any], specs: Iterable[Any] | SpecColumns | None) -> TypedRow:
    """The row of a car from its attributes and the groups of its specification, both as the API gave them.

    Of several labels of one column, and of a label that comes several times, the first value that can be
    read counts. For cars that share a specification, what `spec_columns` made of it may be given in place
    of the groups: the row is the same, in less than half the time.
    """
    if not isinstance(specs, SpecColumns):
        specs = spec_columns(specs)
    get = attributes.get
    image = get("image")
    pictures = image.get("count") if type(image) is dict else image
    read = _Reader()
    text, number = read.text, read.number
    row: dict[str, Any] = {name: text(name, get(name)) for name in _TEXTS if name != "code"}
    for name in ("fuel_type", "transmission"):
        if row[name] is None:
            row[name] = read.first_text(name, specs.fallbacks[name])
    row["code"] = text("code", coerced_code(get("code")))
    row["year"] = number("year", coerced_year(get("year")), FIRST_YEAR, LAST_YEAR)
    row["price_zar"] = number("price_zar", get("price"), 0, _MOST)
    row["monthly_price_zar"] = number("monthly_price_zar", get("monthly_price"), 0, _MOST) or None
    row["mileage_km"] = read.quantity("mileage_km", (get("mileage"),))
    row["seats"] = read.quantity("seats", (get("seats"), *specs.fallbacks["seats"]))
    row["agent_coord_0"] = number("agent_coord_0", get("agent_coords_0_coord"), -180, 180)
    row["agent_coord_1"] = number("agent_coord_1", get("agent_coords_1_coord"), -180, 180)
    row["image_count"] = number("image_count", pictures, 0, _MOST)
    page = get("website_url")
    if page is not None and not web_url(page) and text("url", page):
        read.unread["url"] = page
    return TypedRow(**row, **specs.values, unread={**read.unread, **specs.unread})


@lru_cache(maxsize=4096)
def _known_label(label: str) -> str | None:
    """The label as it is looked for, whatever its case; None when nothing is looked for under it."""
    folded = label.strip().casefold()
    return folded if folded in _KNOWN_LABELS else None


class _Reader:
    """Reads the columns of one row and remembers what it could not read."""

    def __init__(self) -> None:
        self.unread: dict[str, Any] = {}

    def text(self, column: str, raw: Any) -> str | None:
        if raw is None:
            return None
        if type(raw) is not str:
            self.unread.setdefault(column, raw)
            return None
        text = raw.strip()
        return None if len(text) <= _LONGEST_NULL and text.casefold() in NULLS else text

    def first_text(self, column: str, raws: Iterable[Any]) -> str | None:
        for raw in raws:
            text = self.text(column, raw)
            if text is not None:
                self.unread.pop(column, None)
                return text
        return None

    def number(self, column: str, raw: Any, least: int, most: int) -> int | float | None:
        if raw is None:
            return None
        if type(raw) in (int, float) and least <= raw <= most:
            value = _in_type(raw, COLUMNS[column])
            if value is not None:
                return value
        self.unread[column] = raw
        return None

    def quantity(self, column: str, raws: Iterable[Any]) -> Any:
        doubtful, read = None, _READS[column]
        for raw in raws:
            if raw is None:
                continue
            value = read(raw) if type(raw) is str and len(raw) <= _LONGEST else _UNREADABLE
            if value is _UNREADABLE:
                doubtful = raw if doubtful is None else doubtful
            elif value is not None:
                return value
        if doubtful is not None:
            self.unread[column] = doubtful
        return None


def _in_type(number: int | float, kind: type) -> int | float | None:
    """The number as a float, or as an int; None when it has a fraction and an int is due."""
    if kind is float:
        return float(number)
    whole = int(number)
    return whole if whole == number else None


def _quantity_reader(column: str, unit: Unit) -> Callable[[str], object]:
    """What `_read` gives, in the column's type; a number that does not fit it without loss is not read."""

    @lru_cache(maxsize=8192)
    def read(text: str) -> object:
        value = _read(text, unit)
        if value is None or value is _UNREADABLE:
            return value
        fitting = _in_type(value, COLUMNS[column])  # type: ignore[arg-type]
        return _UNREADABLE if fitting is None else fitting

    return read


_WANTED = [(column, [label.casefold() for label in labels]) for column, (_, labels) in _QUANTITIES.items()]
_KNOWN_LABELS = {label.casefold() for labels in _LABELS.values() for label in labels}
_READS = {column: _quantity_reader(column, unit) for column, (unit, _) in _QUANTITIES.items()}
_READS["mileage_km"] = _quantity_reader("mileage_km", "km")
_READS["seats"] = _quantity_reader("seats", "")
_LONGEST_NULL = max(len(null) for null in NULLS)
