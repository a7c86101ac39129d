"""What the spider yields: the published record, and the facts that the verdict is reached from."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import orjson

from carscraper.weighed import compact


class SpecGroups(list[dict[str, Any]]):
    """The groups of one specification, which its cars share: they are made JSON once, and not changed after."""

    __slots__ = ("_json",)

    @property
    def json(self) -> bytes:
        """As `orjson` writes them. Raises `orjson.JSONEncodeError` for what JSON cannot hold."""
        try:
            return self._json
        except AttributeError:
            self._json: bytes = compact(orjson.dumps(self))
            return self._json


@dataclass(slots=True)
class Car:
    """One listing with the specification of its car: the record that every store keeps, keyed by `id`."""

    id: str
    """The API's identifier of the listing, for example "9966395"."""
    url: str
    """Address of the listing's page for people, http or https; empty when the API gave none."""
    scraped_at: str
    """When the listing was read, ISO 8601 in UTC with milliseconds: "2026-11-20T10:15:00.123Z"."""
    car_attrs: dict[str, Any]
    """The listing's attributes as the API gave them, none renamed or converted."""
    car_specs: list[dict[str, Any]] | None
    """Groups `{"title", "attrs": [{"label", "value"}]}` as the API gave them; empty when it has none for this
    car, None when its specification could not be had.
    """


@dataclass(slots=True)
class PageRead:
    """A listing page that was read: what it named, and what it said of the whole."""

    sweep: int
    """Which walk over all pages it belongs to; 1 is the first."""
    offset: int
    """Position of its first listing in the catalogue, from 0."""
    limit: int
    """How many listings lie between this page's first and the next page's first."""
    total: int | None
    """How many listings there were in all, as the API said on this page; None when it told no usable number."""
    ids: list[str]
    """The listings of the page in the API's order; after them the ids of those that do not fit."""
    unnamed: int
    """Listings of the page that do not fit and whose id could not be read either."""
    last: bool = False
    """True when the page named no page after it."""
    rejected: int = 0
    """Listings of the page whose id, code or year cannot be used; the unnamed are among them."""
    specs: list[str] = field(default_factory=list)
    """The different specifications that its listings have, as `code/year`."""
    deviations: dict[str, Any] = field(default_factory=dict)
    """Where it departs from the known shape; see `api/deviations.py`."""


@dataclass(slots=True)
class OddSpec:
    """A specification that was read and departs from the known shape."""

    key: str
    """`code/year`."""
    deviations: dict[str, Any]
    """As of a `PageRead`."""


@dataclass(slots=True)
class SetAside:
    """A listing that the API named but that does not fit its known shape, or that a database cannot hold;
    everything else goes on without it.
    """

    url: str
    """The request that it came with."""
    path: str
    """Where in the answer the odd value stands: `data[3].attributes.code`."""
    problem: str
    """What is odd about it."""
    id: str | None = field(default=None)
    """The listing's identifier, when that could be read."""
    store: str = ""
    """The database that cannot hold it though other stores may; empty when no store has it."""
