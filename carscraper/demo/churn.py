"""Listings that come, go, and change their price while the stand-in runs.

A change is a JSON object, each member of which may be left out:

    {"after_pages": 3, "add": 5, "remove": ["9966395"], "price": {"9966402": 189900}}

It is made when `after_pages` search pages have been answered (default 0: at once), so that the next page
shows it. `remove` is a list of ids, a number (the newest so many), or `{"offset": 40, "count": 3}`: those
that stand there at that moment, from the newest on. First listings go, then prices change, then new
listings come in front.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from carscraper.demo.catalogue import Catalogue
from scrapy_durable.exceptions import ConfigurationError


@dataclass(frozen=True, slots=True)
class Change:
    """One change of the catalogue; `removed_from` is an (offset, count), prices are in rand."""

    after_pages: int
    add: int
    remove: tuple[str, ...]
    removed_from: tuple[int, int]
    prices: Mapping[str, int]

    def apply(self, catalogue: Catalogue) -> dict[str, Any]:
        """Make the change; returns the ids `added` and `removed`, and the new `total`."""
        offset, count = self.removed_from
        removed = catalogue.remove([*self.remove, *catalogue.ids[offset : offset + count]])
        for listing_id, price in self.prices.items():
            catalogue.change_price(listing_id, price)
        return {"added": catalogue.add(self.add), "removed": removed, "total": catalogue.total}


def parse_change(where: str, document: object) -> Change:
    """A change from its JSON; raises ConfigurationError, which starts with `where` and names the member."""
    if not isinstance(document, dict):
        raise ConfigurationError(f"{where}: not an object")
    unknown = document.keys() - {"after_pages", "add", "remove", "price"}
    if unknown:
        raise ConfigurationError(f"{where}: no such member: {', '.join(sorted(unknown))}")
    remove, prices = document.get("remove", []), document.get("price", {})
    removed_from = (0, 0)
    if isinstance(remove, dict):
        removed_from = (
            _count(f"{where}.remove", remove, "offset"),
            _count(f"{where}.remove", remove, "count"),
        )
        remove = []
    elif isinstance(remove, int):
        removed_from = (0, _count(where, document, "remove"))
        remove = []
    if not isinstance(remove, list) or not all(isinstance(listing_id, str) for listing_id in remove):
        raise ConfigurationError(f"{where}.remove: neither ids, a number, nor an offset and a count")
    if not isinstance(prices, dict):
        raise ConfigurationError(f"{where}.price: not an object of ids and prices")
    return Change(
        after_pages=_count(where, document, "after_pages"),
        add=_count(where, document, "add"),
        remove=tuple(remove),
        removed_from=removed_from,
        prices={listing_id: _count(f"{where}.price", prices, listing_id) for listing_id in prices},
    )


def _count(where: str, document: Mapping[str, object], name: str) -> int:
    value = document.get(name, 0)
    if not isinstance(value, int) or value < 0:
        raise ConfigurationError(f"{where}.{name}: not a whole number from 0 on: {value!r}")
    return value
