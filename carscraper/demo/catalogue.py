"""The catalogue of the stand-in: what the API would answer, from a seed, at any size, without I/O.

Invented: how many specifications there are and how they are shared, which listings are featured and where
they come again, and what an offset past the end answers. The shape of the answers, the floored
`totalPages`, the `last` link that is not aligned to a page, and the missing `next` on the last page are the
API's.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, Final
from urllib.parse import urlencode

from carscraper.demo import vehicle
from carscraper.demo.dice import Dice
from carscraper.demo.search import Filters, Parameter, parse_filters
from carscraper.demo.specification import spec_document

KEYS_PER_LISTING: Final = 0.207
"""Ranks of specification keys per listing, so that 71,290 listings come to about 14,231 different keys."""

FEATURED_ONE_IN: Final = 60
NOT_IN_LINKS: Final = ("page[offset]", "page[limit]", "fault")


class Catalogue:
    """All the listings of a site, newest first, and the specifications that they share.

    Only the numbers of the listings that are alive are held; everything else about a listing follows from
    the seed and its number, and is derived when asked for. The rank of a listing's specification key is the
    square of a uniform draw, so a few keys are shared by hundreds of listings and most by a handful.
    """

    def __init__(self, listings: int, seed: int = 1) -> None:
        self.seed = seed
        self._oldest_first = list(range(listings))
        self._next_number = listings
        self._prices: dict[int, int] = {}
        self._ranks = max(1, round(listings * KEYS_PER_LISTING))
        codes = -(-self._ranks // vehicle.YEARS_PER_CODE)
        self._number_of_code = {vehicle.code_text(seed, number): number for number in range(codes)}
        self._versions: dict[int, vehicle.Version] = {}
        self._searches: dict[Filters, list[int]] = {}

    @property
    def total(self) -> int:
        """How many listings are alive."""
        return len(self._oldest_first)

    @property
    def ids(self) -> list[str]:
        """The ids of the listings that are alive, newest first."""
        return [vehicle.listing_id(self.seed, number) for number in reversed(self._oldest_first)]

    @property
    def keys(self) -> set[tuple[str, int]]:
        """The different (code, year) of the listings that are alive."""
        return {
            self._code_and_year(rank)
            for rank in {self._rank(self._dice(number)) for number in self._oldest_first}
        }

    def page(self, offset: int, limit: int, base_url: str, query: Sequence[Parameter] = ()) -> dict[str, Any]:
        """The answer to a search for the `limit` listings from `offset` on.

        `base_url` is what the links start with, up to and without `/v3/vehicle`. `query` holds the other
        parameters as decoded pairs: the filters, `include_featured`, and whatever else the links repeat.
        With `include_featured=true`, `data` holds a few listings more than `limit`, in front. Raises
        BadSearchError.
        """
        numbers = self._found(parse_filters(query))
        total = len(numbers)
        regular = numbers[max(0, total - offset - limit) : max(0, total - offset)][::-1]
        promoted: list[dict[str, Any]] = []
        if ("include_featured", "true") in query:
            featured = self._featured(numbers, Dice(self.seed, "featured", offset), regular)
            promoted = [self._resource(number) for number in featured]
        return {
            "meta": {
                "total": total,
                "totalPages": total // limit,
                "currentPage": offset // limit,
                "featured_listings": {"data": promoted},
            },
            "links": _links(offset, limit, total, base_url, query),
            "data": [*promoted[: len(promoted) // 2 + 1], *map(self._resource, regular)],
        }

    def spec(self, code: str, year: int) -> dict[str, Any] | None:
        """The answer for a specification; None where the API says 404."""
        number = self._number_of_code.get(code)
        if number is None:
            return None
        sold = self._version(number)
        rank = number * vehicle.YEARS_PER_CODE + year - sold.first_year
        if not 0 <= year - sold.first_year < vehicle.YEARS_PER_CODE or rank >= self._ranks:
            return None
        return spec_document(self.seed, rank, sold, year)

    def listing(self, listing_id: str) -> dict[str, Any] | None:
        """The listing with this id as `page` shows it; None when it is not alive."""
        number = vehicle.listing_number(self.seed, listing_id)
        return None if number is None or not self._alive(number) else self._resource(number)

    def add(self, count: int) -> list[str]:
        """Put `count` new listings in front; returns their ids, newest first."""
        new = range(self._next_number, self._next_number + count)
        self._oldest_first.extend(new)
        self._next_number += count
        self._searches.clear()
        return [vehicle.listing_id(self.seed, number) for number in reversed(new)]

    def remove(self, which: Iterable[str] | int) -> list[str]:
        """Take listings away: those with these ids, or the newest so many; returns the ids that went.

        Ids that are not alive are ignored.
        """
        ids = self.ids[:which] if isinstance(which, int) else list(which)
        numbers = (vehicle.listing_number(self.seed, listing_id) for listing_id in ids)
        gone = {number for number in numbers if number is not None and self._alive(number)}
        self._oldest_first = [number for number in self._oldest_first if number not in gone]
        self._searches.clear()
        return [listing_id for listing_id in ids if vehicle.listing_number(self.seed, listing_id) in gone]

    def change_price(self, listing_id: str, price: int) -> bool:
        """Set the price of a listing, in rand; False when it is not alive."""
        number = vehicle.listing_number(self.seed, listing_id)
        if number is None or not self._alive(number):
            return False
        self._prices[number] = price
        self._searches.clear()
        return True

    def _alive(self, number: int) -> bool:
        return _holds(self._oldest_first, number)

    def _rank(self, dice: Dice) -> int:
        """The rank of a listing's specification key: the first draw of its dice."""
        drawn = dice.fraction()
        return int(self._ranks * drawn * drawn)

    def _dice(self, number: int) -> Dice:
        return Dice(self.seed, "listing", number)

    def _version(self, number: int) -> vehicle.Version:
        sold = self._versions.get(number)
        if sold is None:
            sold = self._versions[number] = vehicle.version(self.seed, number)
        return sold

    def _code_and_year(self, rank: int) -> tuple[str, int]:
        number, nth_year = divmod(rank, vehicle.YEARS_PER_CODE)
        sold = self._version(number)
        return sold.code, sold.first_year + nth_year

    def _vehicle(self, number: int, dice: Dice) -> vehicle.Vehicle:
        code, nth_year = divmod(self._rank(dice), vehicle.YEARS_PER_CODE)
        sold = self._version(code)
        listing_id = vehicle.listing_id(self.seed, number)
        return vehicle.vehicle(dice, listing_id, sold, sold.first_year + nth_year)

    def _resource(self, number: int) -> dict[str, Any]:
        dice = self._dice(number)
        car = self._vehicle(number, dice)
        shown = vehicle.resource(dice, car, featured=number % FEATURED_ONE_IN == 7)
        if number in self._prices:
            shown["attributes"]["price"] = self._prices[number]
        return shown

    def _found(self, filters: Filters) -> list[int]:
        if filters == Filters():
            return self._oldest_first
        found = self._searches.get(filters)
        if found is None:
            found = [number for number in self._oldest_first if filters.accept(self._priced(number))]
            self._searches[filters] = found
        return found

    def _priced(self, number: int) -> vehicle.Vehicle:
        car = self._vehicle(number, self._dice(number))
        return replace(car, price=self._prices[number]) if number in self._prices else car

    def _featured(self, numbers: list[int], dice: Dice, regular: list[int]) -> list[int]:
        """Up to four featured listings that are not among `regular`, in no particular order."""
        if not regular:
            return []
        found = []
        for _ in range(4):
            drawn = dice.choice(numbers)
            number = drawn - drawn % FEATURED_ONE_IN + 7
            if _holds(numbers, number) and number not in found and not regular[-1] <= number <= regular[0]:
                found.append(number)
        return found


def _holds(ascending: list[int], number: int) -> bool:
    place = bisect_left(ascending, number)
    return place < len(ascending) and ascending[place] == number


def _links(offset: int, limit: int, total: int, base_url: str, query: Sequence[Parameter]) -> dict[str, str]:
    others = [(name, value) for name, value in query if name not in NOT_IN_LINKS]

    def link(to: int) -> str:
        parameters = [("page[offset]", str(to)), ("page[limit]", str(limit)), *others]
        return f"{base_url}/v3/vehicle?{urlencode(parameters)}"

    links = {"self": link(offset)}
    if offset > 0:
        links["first"] = link(0)
        links["prev"] = link(max(0, offset - limit))
    if offset + limit < total:
        links["next"] = link(offset + limit)
    links["last"] = link(max(0, total - limit))
    return links
