"""What is for sale: versions of cars, and one listing of one of them, as the API writes it.

The names and types of the attributes are the API's. Invented are all the values, how often one is null or
missing, and above all those of `condition`, `search_type`, `commercial_type`, `options`, `body_type_code`
and `reference`, which nobody has published.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, Final

from carscraper.demo.dice import Dice

YEARS_PER_CODE: Final = 3
"""Invented: how many model years share a code; each of them has a specification of its own."""

NEWEST_YEAR: Final = 2025


@dataclass(frozen=True, slots=True)
class Model:
    """A model on the market; `price` is in rand when new, `litres` are the engine sizes to choose from."""

    make: str
    name: str
    body_type: str
    axle: str
    price: int
    litres: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Version:
    """What one code stands for: a model with an engine, a trim and a gearbox, sold from `first_year` on.

    `variant` is as titles and filters have it, such as `1.4 TSI Life Auto`; `slug` is make, model and variant
    as the site's addresses have them.
    """

    code: str
    model: Model
    litres: str
    trim: str
    variant: str
    slug: str
    fuel_type: str
    transmission: str
    first_year: int


@dataclass(frozen=True, slots=True)
class Vehicle:
    """The facts of a listing that searches filter by; `price` is in rand, `mileage` in km."""

    id: str
    version: Version
    year: int
    price: int | None
    mileage: int | None
    province: str | None
    locality: str
    new_or_used: str

    @property
    def title(self) -> str:
        """The headline, such as `2017 Audi A4 1.4 Sport Auto`."""
        model = self.version.model
        return f"{self.year} {model.make} {model.name} {self.version.variant}"


MODELS: Final = (
    Model("Toyota", "Hilux", "Double Cab", "4X4", 720_000, ("2.4", "2.8", "4.0")),
    Model("Toyota", "Corolla Cross", "SUV", "4X2", 460_000, ("1.8",)),
    Model("Toyota", "Starlet", "Hatchback", "4X2", 290_000, ("1.4", "1.5")),
    Model("Toyota", "Fortuner", "SUV", "4X4", 780_000, ("2.4", "2.8")),
    Model("Volkswagen", "Polo Vivo", "Hatchback", "4X2", 270_000, ("1.0", "1.4", "1.6")),
    Model("Volkswagen", "Polo", "Hatchback", "4X2", 390_000, ("1.0", "1.2", "2.0")),
    Model("Volkswagen", "Tiguan", "SUV", "4X4", 680_000, ("1.4", "2.0")),
    Model("Volkswagen", "Amarok", "Double Cab", "4X4", 900_000, ("2.0", "3.0")),
    Model("Ford", "Ranger", "Double Cab", "4X4", 740_000, ("2.0", "2.2", "3.0", "3.2")),
    Model("Ford", "EcoSport", "SUV", "4X2", 340_000, ("1.0", "1.5")),
    Model("Ford", "Everest", "SUV", "4X4", 940_000, ("2.0", "3.0")),
    Model("Suzuki", "Swift", "Hatchback", "4X2", 240_000, ("1.2", "1.4")),
    Model("Suzuki", "Jimny", "SUV", "4X4", 430_000, ("1.5",)),
    Model("Hyundai", "i20", "Hatchback", "4X2", 320_000, ("1.0", "1.2", "1.4")),
    Model("Hyundai", "Creta", "SUV", "4X2", 460_000, ("1.5", "1.6")),
    Model("Hyundai", "Tucson", "SUV", "4X2", 590_000, ("1.6", "2.0")),
    Model("Kia", "Picanto", "Hatchback", "4X2", 240_000, ("1.0", "1.2")),
    Model("Kia", "Sportage", "SUV", "4X2", 610_000, ("1.6", "2.0")),
    Model("Nissan", "NP200", "Single Cab", "4X2", 250_000, ("1.5", "1.6")),
    Model("Nissan", "Navara", "Double Cab", "4X4", 660_000, ("2.3", "2.5")),
    Model("Renault", "Kwid", "Hatchback", "4X2", 200_000, ("1.0",)),
    Model("Renault", "Mégane", "Hatchback", "4X2", 480_000, ("1.2", "1.6")),
    Model("Isuzu", "D-Max", "Double Cab", "4X4", 690_000, ("1.9", "3.0")),
    Model("Mazda", "CX-5", "SUV", "4X2", 580_000, ("2.0", "2.2", "2.5")),
    Model("Haval", "Jolion", "SUV", "4X2", 400_000, ("1.5",)),
    Model("Chery", "Tiggo 4 Pro", "SUV", "4X2", 330_000, ("1.5",)),
    Model("BMW", "3 Series", "Sedan", "4X2", 950_000, ("1.5", "2.0", "3.0")),
    Model("BMW", "X5", "SUV", "4X4", 1_750_000, ("3.0", "4.4")),
    Model("Mercedes-Benz", "C-Class", "Sedan", "4X2", 1_050_000, ("1.5", "2.0")),
    Model("Mercedes-Benz", "Vito", "Bus", "4X2", 980_000, ("2.0", "2.2")),
    Model("Audi", "A4", "Sedan", "4X2", 830_000, ("1.4", "2.0")),
    Model("Land Rover", "Defender", "SUV", "4X4", 1_650_000, ("2.0", "3.0")),
)

PROVINCES: Final = (
    "Gauteng",
    "Western Cape",
    "Kwazulu Natal",
    "Limpopo",
    "Northern Cape",
    "Eastern Cape",
    "North West Province",
    "Mpumalanga",
    "Free State",
)
_LOCALITIES: Final = {
    "Gauteng": ("Pretoria", "Johannesburg", "Centurion", "Boksburg"),
    "Western Cape": ("Cape Town", "Paarl", "George", "Bellville"),
    "Kwazulu Natal": ("Durban", "Pietermaritzburg", "Umhlanga"),
    "Limpopo": ("Polokwane", "Tzaneen"),
    "Northern Cape": ("Kimberley", "Upington"),
    "Eastern Cape": ("Gqeberha", "East London", "Mthatha"),
    "North West Province": ("Rustenburg", "Potchefstroom"),
    "Mpumalanga": ("Mbombela", "eMalahleni"),
    "Free State": ("Bloemfontein", "Welkom"),
}
_TRIMS: Final = (
    "Base",
    "Comfort",
    "Life",
    "Style",
    "Sport",
    "Limited",
    "GL",
    "GLX",
    "XLT",
    "Executive",
    "R-Line",
    "Signature",
)
_COLOURS: Final = ("White", "Silver", "Grey", "Black", "Blue", "Red", "Orange", "Pearl White", "Gun Metal")
_AGENTS: Final = (
    "Kempster Motors",
    "Protea Auto",
    "Highveld Cars",
    "Bo-Kaap Wheels",
    "Umgeni Motors",
    "Café Auto",
)
_OPTIONS: Final = (
    "Air conditioning",
    "Cruise control",
    "Park distance control",
    "Leather seats",
    "Sunroof",
    "Tow bar",
    "Bluetooth",
    "Reverse camera",
    "Alloy wheels",
    "Canopy",
)
_PRAISE: Final = (
    "One owner, bought new from the agents.",
    "Full service history with the franchise dealer.",
    "Balance of the service plan and warranty still applies.",
    "Accident free, with a roadworthy certificate on delivery.",
    "Finance can be arranged through all the major banks.",
    "Trade-ins are welcome; we pay more for a clean car.",
    "Two keys, spare wheel never used, tyres in good condition.",
    "Nationwide delivery is possible at the buyer's cost.",
    "Die motor is in 'n uitstekende toestand – kom kyk self!",
)
_BODY_CODES: Final = {
    "Hatchback": "HB",
    "Sedan": "SD",
    "SUV": "SU",
    "Double Cab": "DC",
    "Single Cab": "SC",
    "Bus": "BU",
}
_SOMETIMES_MISSING: Final = (
    "agent_vin_required",
    "monthly_price",
    "options",
    "variant_short",
    "vehicle_axle_config",
)
_FIRST_ID: Final = 7_000_013
_IDS_PER_LISTING: Final = 37


def code_text(seed: int, number: int) -> str:
    """The code of version `number`: base64 of eight bytes, so it ends in `=` and may hold `+` and `/`."""
    return base64.b64encode(blake2b(f"{seed}/code/{number}".encode(), digest_size=8).digest()).decode()


def version(seed: int, number: int) -> Version:
    """Version `number` of the market that `seed` makes; the first of `MODELS` have the most versions."""
    dice = Dice(seed, "version", number)
    model = MODELS[int(len(MODELS) * dice.fraction() ** 2)]
    litres, trim = dice.choice(model.litres), dice.choice(_TRIMS)
    transmission = dice.choice(("Manual", "Automatic"))
    variant = f"{litres} {trim}{' Auto' if transmission == 'Automatic' else ''}"
    return Version(
        code=code_text(seed, number),
        model=model,
        litres=litres,
        trim=trim,
        variant=variant,
        slug=_slug(f"{model.make} {model.name} {variant}"),
        fuel_type=dice.choice(("Petrol", "Petrol", "Diesel", "Hybrid")),
        transmission=transmission,
        first_year=dice.between(2008, NEWEST_YEAR - YEARS_PER_CODE + 1),
    )


def listing_id(seed: int, number: int) -> str:
    """The id of listing `number`; a listing that came later has the greater one."""
    jitter = ((number + seed) * 2_654_435_761 >> 8) % _IDS_PER_LISTING
    return str(_FIRST_ID + number * _IDS_PER_LISTING + jitter)


def listing_number(seed: int, wanted: str) -> int | None:
    """The number of the listing whose id is `wanted`, or None when no listing ever has that id."""
    if not wanted.isascii() or not wanted.isdigit() or len(wanted) > 18:
        return None
    number = (int(wanted) - _FIRST_ID) // _IDS_PER_LISTING
    return number if number >= 0 and listing_id(seed, number) == wanted else None


def vehicle(dice: Dice, listing_id: str, sold: Version, year: int) -> Vehicle:
    """The facts of a listing that sells `sold` of model year `year`; `dice` are the listing's."""
    age = NEWEST_YEAR - year
    new = age <= 1 and dice.one_in(2)
    province = dice.choice(PROVINCES)
    worth = sold.model.price * 0.88**age * dice.between(85, 115) / 100
    return Vehicle(
        id=listing_id,
        version=sold,
        year=year,
        price=None if dice.one_in(150) else int(worth) // 100 * 100 + 99,
        mileage=_mileage(dice, age=age, new=new),
        province=None if dice.one_in(300) else province,
        locality=dice.choice(_LOCALITIES[province]),
        new_or_used="New" if new else "Used",
    )


def _mileage(dice: Dice, *, age: int, new: bool) -> int | None:
    if new:
        return dice.choice((0, 0, 10, 25, None))
    return None if dice.one_in(100) else (age + 1) * dice.between(3_000, 22_000) + dice.below(1_000)


def resource(dice: Dice, car: Vehicle, *, featured: bool) -> dict[str, Any]:
    """A listing as an element of the answer's `data`, some 1.5 KB of JSON; `dice` are what `vehicle` left."""
    sold, model = car.version, car.version.model
    agent = dice.choice(_AGENTS)
    title = car.title
    attributes: dict[str, Any] = {
        "agent_coords_0_coord": -(22_000_000 + dice.below(12_000_000)) / 1_000_000,
        "agent_coords_1_coord": (17_000_000 + dice.below(15_000_000)) / 1_000_000,
        "agent_featured": "1" if featured else "0",
        "agent_locality": None if dice.one_in(80) else car.locality,
        "agent_name": f"{agent} {car.locality}",
        "agent_vin_required": dice.choice(("0", "1")),
        "body_type": model.body_type,
        "body_type_code": _BODY_CODES[model.body_type],
        "code": sold.code,
        "colour": None if dice.one_in(60) else dice.choice(_COLOURS),
        "commercial_type": "Commercial" if "Cab" in model.body_type else "Passenger",
        "condition": dice.choice(("Excellent", "Very Good", "Good", "Fair")),
        "description": _description(dice, title, car.locality),
        "fuel_type": None if dice.one_in(200) else sold.fuel_type,
        "image": {
            "version": dice.between(1_000_000_000, 2_900_000_000),
            "count": dice.between(1, 24),
            "path": "carsimages",
            "name": car.id,
            "extension": ".jpg",
        },
        "make": model.make,
        "mileage": None if car.mileage is None else f"{car.mileage:,} Km".replace(",", " "),
        "model": model.name,
        "monthly_price": 0 if car.price is None else car.price * 22 // 1_000,
        "new_or_used": car.new_or_used,
        "options": ", ".join(_OPTIONS[dice.below(5) :: dice.between(1, 3)]),
        "price": car.price,
        "province": car.province,
        "reference": f"{agent[:3].upper()}{dice.below(1_000_000):06}",
        "search_type": "new" if car.new_or_used == "New" else "used",
        "seats": "2" if model.body_type == "Single Cab" else dice.choice(("5", "5", "5", "7")),
        "seller_type": "Private Seller" if dice.one_in(9) else "Dealer",
        "seller_types": ["Dealer"] if dice.one_in(3) else ["Dealer", "Franchise"],
        "title": title,
        "transmission": None if dice.one_in(250) else sold.transmission,
        "variant": sold.variant,
        "variant_short": f"{sold.litres} {sold.trim}",
        "vehicle_axle_config": model.axle,
        "website_url": _website_url(car),
        "year": car.year,
    }
    left_out = dice.below(400)
    if left_out < len(_SOMETIMES_MISSING):
        del attributes[_SOMETIMES_MISSING[left_out]]
    return {"type": "vehicle", "id": car.id, "attributes": attributes}


def _description(dice: Dice, title: str, locality: str) -> str:
    first, sentences = dice.below(len(_PRAISE)), dice.between(3, 8)
    return f"{title} for sale in {locality}.\n{' '.join((_PRAISE + _PRAISE)[first : first + sentences])}"


def _website_url(car: Vehicle) -> str:
    province = f"-{_slug(car.province)}" if car.province else ""
    slug = f"{car.year}-{car.version.slug}{province}-{_slug(car.locality)}"
    return f"https://www.cars.co.za/for-sale/{car.new_or_used.lower()}/{slug}/{car.id}/"


def _slug(words: str) -> str:
    return words.encode("ascii", "ignore").decode().replace(" ", "-")
