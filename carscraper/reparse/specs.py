"""The specifications of a stored crawl, and those that it lacks."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from carscraper.api.endpoints import SpecKey
from carscraper.catalogue.pages import read_specs, time_text
from carscraper.exceptions import ApiError
from carscraper.items import Car, OddSpec, Specification
from carscraper.spiders.cars import LOOK_UP

if TYPE_CHECKING:
    from carscraper.api.search_page import Listing
    from scrapy_durable.responses.contract import ResponseStore, StoredResponse


class StoredSpecs:
    """The specifications of a crawl, each read once however many listings share it."""

    def __init__(self, store: ResponseStore) -> None:
        self._store = store
        self._found: dict[tuple[str, int], Specification | None] = {}
        """By code and year; None for what is among `absent`."""
        self.absent: dict[str, AbsentSpec] = {}
        """Specifications that cannot be had, by `code/year`."""

    async def merge(self, listings: list[Listing], page: StoredResponse) -> list[Car | OddSpec]:
        """The cars of a page, and those of their specifications that depart from the known shape, each once."""
        wanted = dict.fromkeys((listing.code, listing.year) for listing in listings)
        new = [key for key in wanted if key not in self._found]
        odd = []
        for start in range(0, len(new), LOOK_UP):
            odd += await self._look_up(new[start : start + LOOK_UP])
        scraped_at = time_text(page.fetched_at)
        cars = []
        for listing in listings:
            found = self._found[listing.code, listing.year]
            if found is None:
                self.absent[SpecKey(listing.code, listing.year).text].listings[listing.id] = None
            cars.append(Car(listing.id, listing.url, scraped_at, listing.attributes, found))
        return [*cars, *odd]

    async def _look_up(self, keys: list[tuple[str, int]]) -> list[OddSpec]:
        texts = {key: SpecKey(*key).text for key in keys}
        stored = await self._store.get_many(list(texts.values()), math.inf)
        odd = []
        for key, text in texts.items():
            self._found[key] = None
            answer = stored.get(text)
            if answer is None:
                self.absent[text] = AbsentSpec("", "its specification is not in the response store")
                continue
            try:
                self._found[key], deviations = read_specs(answer.status, answer.body)
            except ApiError as error:
                self.absent[text] = AbsentSpec(
                    answer.url, f"no answer: {error}", other_shape=bool(error.path)
                )
                continue
            if deviations:
                odd.append(OddSpec(text, deviations))
        return odd


@dataclass(slots=True)
class AbsentSpec:
    """A specification that cannot be had from the response store."""

    url: str
    reason: str
    other_shape: bool = False
    listings: dict[str, None] = field(default_factory=dict)
    """Ids of the listings that have it."""
