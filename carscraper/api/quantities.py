"""Text with units turned into numbers and nulls.

What is read is exactly what is known to occur; anything else is not guessed at but named, with its raw
text, so that a new spelling is seen in the figures of a crawl and added here on purpose.
"""

from __future__ import annotations

import re
from typing import Literal

from carscraper.api.body import shown
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

MOST = 10**12
"""No car has more of anything; what is above is no quantity."""

LONGEST = 60
"""Characters; what is longer is no quantity."""

_NUMBER = re.compile(
    r"""(?P<whole> [1-9][0-9]{0,2}(?:[ ][0-9]{3})+         # 38 329
                 | [1-9][0-9]{0,2}(?:,[0-9]{3})+(?![0-9])  # 38,329
                 | [0-9]{1,12} )                           # 38329
        (?:(?P<point>[.,])(?P<part>[0-9]{1,6}))?""",
    re.VERBOSE,
)
UNREADABLE = object()
"""What `read` returns for a text that is no quantity."""


def read_quantity(text: str, unit: Unit) -> int | float | None:
    """The number that the text tells: an int when it is written without a fraction, None for one of `NULLS`.

    Thousands may be set apart by spaces of any kind or by commas; a fraction follows a point or a comma.
    The unit must be there, in any case of letters: before the number for `R`, behind it for the others.

    Raises `ApiError`, its path empty, for all else: another unit, a range, a sign, a bare number where a
    unit is due, and what can be read in two ways, such as `8,500 s` or `38.329 km`.
    """
    value = read(text, unit)
    if value is UNREADABLE:
        raise ApiError("", f"{shown(text)} is no quantity in {unit or 'pieces'}")
    return value  # type: ignore[return-value]


def read(text: str, unit: Unit) -> object:
    """As `read_quantity`, with `UNREADABLE` in place of an error: a row reads thousands of texts."""
    if len(text) > LONGEST:
        return UNREADABLE
    plain = " ".join(text.split()).casefold()
    if plain in NULLS:
        return None
    match = _NUMBER.search(plain)
    if not match:
        return UNREADABLE
    before, behind = plain[: match.start()].rstrip(), plain[match.end() :].lstrip()
    mark, rest = (before, behind) if unit == "R" else (behind, before)
    factor = _SPELLINGS[unit].get(mark)
    if factor is None or rest:
        return UNREADABLE
    number = _number(match["whole"], match["point"], match["part"], fine=unit in _FINE and factor == 1)
    if number is None or number > MOST:
        return UNREADABLE
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
