"""The specifications of a stored crawl, and those that it lacks."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from carscraper.api.endpoints import SpecKey
from carscraper.catalogue.pages import time_text
from carscraper.exceptions import ApiError
from carscraper.items import Car, OddSpec
from carscraper.responses.known_specs import KnownSpec, KnownSpecs
from carscraper.spiders.cars import LOOK_UP

if TYPE_CHECKING:
    from carscraper.api.search_page import Listing
    from scrapy_durable.responses.contract import ResponseStore, StoredResponse


class StoredSpecs:
    """The specifications of a crawl. Each is read once for the listings that share it, as long as it is known."""

    def __init__(self, store: ResponseStore) -> None:
        self._store = store
        self._known = KnownSpecs()
        self._odd: set[str] = set()
        """The keys of those that were returned as odd."""
        self.absent: dict[str, AbsentSpec] = {}
        """Specifications that cannot be had, by `code/year`."""

    async def merge(self, listings: list[Listing], page: StoredResponse) -> list[Car | OddSpec]:
        """The cars of a page, and those of their specifications that depart from the known shape, each once."""
        keys = [SpecKey(listing.code, listing.year).text for listing in listings]
        found = self._known.known(keys, -math.inf)
        new = [key for key in dict.fromkeys(keys) if key not in found and key not in self.absent]
        for start in range(0, len(new), LOOK_UP):
            found |= await self._look_up(new[start : start + LOOK_UP])
        scraped_at = time_text(page.fetched_at)
        cars = []
        for listing, key in zip(listings, keys, strict=True):
            known = found.get(key)
            if known is None:
                self.absent[key].listings[listing.id] = None
            specs = known.specification if known else None
            cars.append(Car(listing.id, listing.url, scraped_at, listing.attributes, specs))
        odd = [key for key in new if key in found and found[key].deviations and key not in self._odd]
        self._odd.update(odd)
        return [*cars, *(OddSpec(key, found[key].deviations) for key in odd)]

    async def _look_up(self, keys: list[str]) -> dict[str, KnownSpec]:
        """Those that can be had; the others are among `absent` from then on."""
        stored = await self._store.get_many(keys, math.inf)
        found = {}
        for key in keys:
            answer = stored.pop(key, None)
            if answer is None:
                self.absent[key] = AbsentSpec("", "its specification is not in the response store")
                continue
            try:
                found[key] = KnownSpec.read(answer.status, answer.body, answer.fetched_at)
            except ApiError as error:
                self.absent[key] = AbsentSpec(answer.url, f"no answer: {error}", other_shape=bool(error.path))
            else:
                self._known.put(key, found[key])
        return found


@dataclass(slots=True)
class AbsentSpec:
    """A specification that cannot be had from the response store."""

    url: str
    reason: str
    other_shape: bool = False
    listings: dict[str, None] = field(default_factory=dict)
    """Ids of the listings that have it."""
