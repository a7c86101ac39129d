"""The specification of one version in one model year, as the API writes it: some fifty labels in groups.

The nesting (a list in a list), the groups, and the values "n/a", "-" and "" are the API's. The labels
beyond the published ones, every value, and how often a specification is missing or empty are invented.
"""

from __future__ import annotations

from typing import Any, Final

from carscraper.demo.dice import Dice
from carscraper.demo.vehicle import Version

_SAFETY: Final = (
    "Airbags quantity",
    "Driver airbag",
    "Passenger airbag",
    "Side airbags",
    "Curtain airbags",
    "ABS brakes",
    "Electronic brake-force distribution",
    "Brake assist",
    "Electronic stability control",
    "Traction control",
    "Lane departure warning",
    "Blind spot monitor",
    "ISOFIX child seat mounts",
    "Tyre pressure monitor",
    "Automatic drive away locking",
)
_COMFORT: Final = (
    "Air conditioning",
    "Climate control zones",
    "Cruise control",
    "Electric windows",
    "Electric mirrors",
    "Power steering",
    "Multi-function steering wheel",
    "Keyless entry",
    "Keyless start",
    "Rain sensor wipers",
    "Automatic headlights",
    "Park distance control",
    "Camera for park assist",
    "Upholstery",
    "Bluetooth connectivity",
    "USB port",
    "Apple CarPlay",
    "Android Auto",
    "Satellite navigation",
    "Sunroof",
)


def spec_document(seed: int, key: int, sold: Version, year: int) -> dict[str, Any] | None:
    """The answer for the key of rank `key` (0 is the most shared one); None when the API has none: a 404.

    About 1 key in 100 is a 404, 1 in 90 is `{"data": [[]]}` and 1 in 180 is `{"data": []}`; small catalogues
    have all three.
    """
    if key % 97 == 11:
        return None
    if key % 89 == 5:
        return {"data": [[]]}
    if key % 181 == 7:
        return {"data": []}
    dice = Dice(seed, "spec", key)
    return {"data": [[_group(dice, title, rows) for title, rows in _groups(dice, sold, year)]]}


def _groups(dice: Dice, sold: Version, year: int) -> list[tuple[str | None, list[tuple[str, str]]]]:
    litres = float(sold.litres)
    kilowatt = round(litres * dice.between(48, 75))
    thirst = f"{litres * 1.6 + dice.below(40) / 10:.1f} l/100km"
    sprint = f"{dice.between(62, 145) / 10} s"
    power = dice.choice(("Power Maximum Total", "Power Max"))
    size = dice.choice(("Engine Size", "Engine Capacity"))
    price = f"R {round(sold.model.price * 0.98 ** (2025 - year)):,}".replace(",", " ")
    return [
        (
            "Summary",
            [
                ("Seats quantity", dice.choice(("5", "5", "7"))),
                ("0-100Kph", sprint),
                ("Average Fuel Economy", thirst),
                (power, f"{kilowatt} kW"),
            ],
        ),
        (
            "Engine",
            [
                (size, f"{sold.litres}l"),
                ("Cylinders", "3" if litres < 1.3 else "6" if litres > 2.8 else "4"),
                ("Fuel Type", sold.fuel_type),
                ("Power Max", f"{kilowatt} kW"),
                ("Torque Max", f"{round(kilowatt * dice.between(16, 24) / 10)} Nm"),
                ("Transmission type", sold.transmission),
                ("Gear ratios quantity", str(dice.between(5, 10))),
                ("Driven Wheels", "all" if sold.model.axle == "4X4" else dice.choice(("front", "rear"))),
            ],
        ),
        (
            "Economy",
            [
                ("Fuel tank capacity", f"{dice.between(35, 90)} l"),
                ("Fuel range", f"{dice.between(480, 1_150)} km"),
                ("Average", thirst),
                ("Co2", f"{dice.between(98, 289)} g/km"),
            ],
        ),
        ("Performance", [("0-100Kph", sprint), ("Top speed", f"{dice.between(150, 250)} km/h")]),
        (
            "Dimensions",
            [
                ("Length", f"{dice.between(3_550, 5_350)} mm"),
                ("Width", f"{dice.between(1_640, 2_050)} mm"),
                ("Height", f"{dice.between(1_400, 1_880)} mm"),
                ("Wheelbase", f"{dice.between(2_350, 3_200)} mm"),
                ("Ground clearance", f"{dice.between(120, 290)} mm"),
                ("Kerb Weight", f"{dice.between(890, 2_500)} kg"),
            ],
        ),
        ("Safety", _fitted(dice, _SAFETY, count="Airbags quantity")),
        (None if dice.one_in(4) else "Comfort", _fitted(dice, _COMFORT, count="Climate control zones")),
        (
            "General",
            [
                ("Warranty", f"{dice.between(2, 7)} years / {dice.choice((100, 120, 150, 200))} 000 km"),
                ("Service plan", f"{dice.between(2, 5)} years / {dice.choice((45, 60, 90))} 000 km"),
                ("Introduced", f"{year} {dice.choice(('Jan', 'Apr', 'Jul', 'Oct'))}"),
                ("Price", price),
            ],
        ),
    ]


def _fitted(dice: Dice, labels: tuple[str, ...], *, count: str) -> list[tuple[str, str]]:
    """Which of `labels` this version lists, each in three of four versions; `count` is a number."""
    return [
        (label, str(dice.between(1, 8)) if label == count else dice.choice(("yes", "yes", "no", "optional")))
        for label in labels
        if not dice.one_in(4)
    ]


def _group(dice: Dice, title: str | None, rows: list[tuple[str, str]]) -> dict[str, Any]:
    return {
        "title": title,
        "attrs": [
            {"label": label, "value": dice.choice(("n/a", "-", "")) if dice.one_in(25) else value}
            for label, value in rows
        ],
    }
