"""What the spider yields: the published record, and the facts that the verdict is reached from."""

from __future__ import annotations

import hashlib
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

import orjson

from carscraper.weighed import compact

if TYPE_CHECKING:
    from carscraper.api.rows import SpecColumns

Groups = list[dict[str, Any]]
"""Of a specification: `{"title", "attrs": [{"label", "value"}]}`."""


DIGEST = 16
"""Bytes of a digest: enough that no two readings of a listing, or specifications, ever share one by chance."""
_SPECS_BYTES = "specs_bytes"


class Specification:
    """The groups of one specification as JSON, which its cars share: made once, and put into each record as it is."""

    __slots__ = ("_digest", "columns", "json")

    def __init__(self, groups: Groups | None) -> None:
        """None: it could not be had. Raises `orjson.JSONEncodeError` for what JSON cannot hold, which nothing is that
        was read from it.
        """
        self._keep(compact(orjson.dumps(groups)))

    def _keep(self, json: bytes) -> None:
        self.json = json
        self.columns: SpecColumns | None = None
        """What it says in typed columns, once a database has wanted that."""
        self._digest = b""

    @classmethod
    def of_json(cls, json: bytes) -> Self:
        """The one that has this JSON, which nobody looks into."""
        made = cls.__new__(cls)
        made._keep(json)
        return made

    @property
    def digest(self) -> bytes:
        """Of its JSON, `DIGEST` bytes."""
        if not self._digest:
            self._digest = hashlib.blake2b(self.json, digest_size=DIGEST).digest()
        return self._digest

    @property
    def groups(self) -> Groups:
        """Made anew each time."""
        found: Groups = orjson.loads(self.json)
        return found


class _WithSpecs:
    """Where a car keeps what it was given as `car_specs`."""

    __slots__ = ("_specs", "log_number")
    _specs: Specification | Groups | None
    log_number: int
    """Of its entry in the item log of this process; there once it was logged."""

    @property
    def specification(self) -> Specification:
        """The one that was given, or one made of what stands there. Raises `orjson.JSONEncodeError` for what a pipeline
        has put there and JSON cannot hold.
        """
        specs = self._specs
        return specs if isinstance(specs, Specification) else Specification(specs)

    @property
    def specs_json(self) -> bytes:
        """`car_specs` as JSON, the same object for all cars that were given one `Specification`. Raises as
        `specification`.
        """
        return self.specification.json


class _SpecsField:
    """The field `car_specs`: what was given, but the groups of a `Specification`, read when they are asked for."""

    def __get__(self, car: _WithSpecs | None, owner: type[_WithSpecs] | None = None) -> Groups | None:
        if car is None:
            raise AttributeError("a field without a default")
        if isinstance(car._specs, Specification):
            car._specs = car._specs.groups
        return car._specs

    def __set__(self, car: _WithSpecs, specs: Specification | Groups | None) -> None:
        car._specs = specs


@dataclass
class Car(_WithSpecs):
    """One listing with the specification of its car: the record that every store keeps, keyed by `id`."""

    __slots__ = ("car_attrs", "id", "scraped_at", "url")

    id: str
    """The API's identifier of the listing, for example "9966395"."""
    url: str
    """Address of the listing's page for people, http or https; empty when the API gave none."""
    scraped_at: str
    """When the listing was read, ISO 8601 in UTC with milliseconds: "2026-11-20T10:15:00.123Z"."""
    car_attrs: dict[str, Any]
    """The listing's attributes as the API gave them, none renamed or converted."""
    car_specs: _SpecsField = _SpecsField()
    """Groups as the API gave them; empty when it has none for this car, None when its specification could not be had.
    Given as a `Specification`, they are read when they are asked for, and are this car's own from then on.
    """

    def log_parts(self) -> tuple[dict[str, Any], bytes] | None:
        """For the item log of feeds: the JSON of a `Specification` is put behind the other fields as it is."""
        if type(self) is not Car:
            return None
        fields = {name: getattr(self, name) for name in Car.__slots__}
        if isinstance(self._specs, Specification):
            return fields, self._specs.json
        return {**fields, "car_specs": self._specs}, b""

    @property
    def record_parts(self) -> tuple[dict[str, Any], bytes]:
        """The same for the log of which `cars.json` is made: how long the specification is, and the record as JSON, on
        one line, with `id` first and `car_specs` last. Raises `orjson.JSONEncodeError` when JSON cannot hold it.
        """
        specs = self.specs_json
        record = {
            "id": self.id,
            "url": self.url,
            "scraped_at": self.scraped_at,
            "car_attrs": self.car_attrs,
            "car_specs": orjson.Fragment(specs),
        }
        return {_SPECS_BYTES: len(specs)}, orjson.dumps(record)

    @classmethod
    def from_log_parts(cls, fields: dict[str, Any], rest: bytes) -> Self:
        """The car that had these parts."""
        if (length := fields.get(_SPECS_BYTES)) is not None:
            end = len(rest) - len(b"}")
            fields = orjson.loads(rest[: end - length] + b"null}")
            rest = rest[end - length : end]
            del fields["car_specs"]
        if "car_specs" not in fields:
            fields = {**fields, "car_specs": Specification.of_json(rest)}
        return cls(**fields)


@dataclass(slots=True)
class Cars:
    """Records of one answer on their way through the pipelines together: a tenth of what they take one by one."""

    cars: list[Car]


@dataclass(slots=True)
class PageRead:
    """A listing page that was read: what it named, and what it said of the whole."""

    pass_number: int
    """Which walk over all pages it belongs to; 1 is the first."""
    offset: int
    """Position of its first listing in the catalogue, from 0."""
    limit: int
    """How many listings lie between this page's first and the next page's first."""
    total: int | None
    """How many listings there were in all, as the API said on this page; None when it told no usable number."""
    ids: Collection[str]
    """The listings of the page in the API's order; after them the ids of those that do not fit."""
    unnamed: int
    """Listings of the page that do not fit and whose id could not be read either."""
    last: bool = False
    """True when the page named no page after it."""
    rejected: int = 0
    """Listings of the page whose id, code or year cannot be used; the unnamed are among them."""
    specs: Collection[str] = field(default_factory=list)
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


@dataclass(slots=True)
class Removal:
    """The end of a complete crawl: what it has not seen is off the site. Logged behind the crawl's records, for the
    databases. Times as in `Car.scraped_at`.
    """

    seen: list[str]
    """Texts of ids with spaces between, as `PackedIds` has them: as many strings would take ten times the memory."""
    begun_at: str
    removed_at: str
