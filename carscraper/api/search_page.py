"""A page of listings: bytes in, listings out; what cannot be used is named by its path, what is odd is counted."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from types import NoneType
from typing import Any

from carscraper.api.body import (
    LARGEST_LISTING,
    excess,
    may_be_deep,
    may_have_many_values,
    read_object,
    shown,
    step,
)
from carscraper.api.deviations import MISSING, Deviations, coerced_code, coerced_id, coerced_year, note
from carscraper.api.endpoints import key_problem, web_url
from carscraper.exceptions import ApiError

_WHOLE = re.compile(r"[0-9]{1,19}")
MOST_LISTINGS = 2000
"""Listings that one page may hold: twice as many as it can be asked for. What is wrong is noted of each."""
_ID = re.compile(r"[0-9A-Za-z_-]{1,64}")

_TEXT: frozenset[type] = frozenset({str})
_TEXT_OR_NULL: frozenset[type] = frozenset({str, NoneType})
_INTEGER: frozenset[type] = frozenset({int})
_NUMBER: frozenset[type] = frozenset({int, float})

ATTRIBUTE_TYPES: dict[str, frozenset[type]] = {
    "agent_coords_0_coord": _NUMBER,
    "agent_coords_1_coord": _NUMBER,
    "agent_featured": _TEXT,
    "agent_locality": _TEXT_OR_NULL,
    "agent_name": _TEXT,
    "agent_vin_required": _TEXT,
    "body_type": _TEXT,
    "body_type_code": _TEXT,
    "code": _TEXT,
    "colour": _TEXT_OR_NULL,
    "commercial_type": _TEXT,
    "condition": _TEXT,
    "description": _TEXT,
    "fuel_type": _TEXT_OR_NULL,
    "image": frozenset({dict}),
    "make": _TEXT,
    "mileage": _TEXT_OR_NULL,
    "model": _TEXT,
    "monthly_price": _NUMBER,
    "new_or_used": _TEXT,
    "options": _TEXT,
    "price": frozenset({int, float, NoneType}),
    "province": _TEXT_OR_NULL,
    "reference": _TEXT,
    "search_type": _TEXT,
    "seats": _TEXT,
    "seller_type": _TEXT,
    "seller_types": frozenset({list}),
    "title": _TEXT,
    "transmission": _TEXT_OR_NULL,
    "variant": _TEXT,
    "variant_short": _TEXT,
    "vehicle_axle_config": _TEXT,
    "website_url": _TEXT_OR_NULL,
    "year": _INTEGER,
}
"""Each attribute and the types that its value is known to have. Only `code` and `year` must be there."""

IMAGE_TYPES: dict[str, frozenset[type]] = {
    "version": _INTEGER,
    "count": _INTEGER,
    "path": _TEXT,
    "name": _TEXT,
    "extension": _TEXT,
}

_LINK_FIELDS = frozenset({"self", "first", "next", "prev", "last"})
_TOP_FIELDS = frozenset({"meta", "links", "data"})
_META_FIELDS = frozenset({"total", "totalPages", "currentPage", "featured_listings"})
_LISTING_FIELDS = frozenset({"type", "id", "attributes"})
_NEW = "new field"


@dataclass(frozen=True, slots=True)
class Meta:
    """What the API says of the whole search."""

    total: int | None
    """Listings found, at the moment of the answer; None when it tells no whole number, neither as one nor as text."""
    total_pages: int | None
    """The floor of `total / limit`: one page more exists when a rest is left. None when not told."""
    current_page: int | None
    """Counts from 0. None when not told."""


@dataclass(frozen=True, slots=True)
class Links:
    """Absolute URLs of pages, None when not told. `last` is not aligned to a page: for showing, not for following."""

    self: str | None = None
    first: str | None = None
    next: str | None = None
    """None on the last page, and where something else than text is there."""
    prev: str | None = None
    last: str | None = None
    is_last: bool = False
    """There are links, and none of them leads further: what cannot be read as a link does not end a catalogue."""


@dataclass(frozen=True, slots=True)
class Listing:
    """One car on offer. Its `code` and `year` are fit to ask for a specification."""

    id: str
    attributes: dict[str, Any]
    """As the API gave them, whatever their types."""
    code: str
    year: int
    url: str
    """Its page for humans; empty when the API gave none that is http(s)."""


@dataclass(frozen=True, slots=True)
class Reject:
    """A listing whose id, code or year cannot be used, so that it is rejected; its neighbours are not affected."""

    id: str | None
    """None when the id itself is missing or not one."""
    path: str
    """Leads to the first value that cannot be used, as in `data[3].attributes.code`."""
    problem: str


@dataclass(frozen=True, slots=True)
class SearchPage:
    """One answer of the search. `listings`, `rejected` and `featured` are all that it held."""

    meta: Meta
    links: Links
    listings: tuple[Listing, ...]
    """In the order of the API: newest first, but for featured ones."""
    rejected: tuple[Reject, ...]
    """Of `data`."""
    featured: tuple[Listing, ...]
    """From `meta.featured_listings.data`; they may be in `listings` of this or another page too."""
    featured_rejected: tuple[Reject, ...]
    """Of `meta.featured_listings.data`."""
    deviations: Deviations
    """Where the answer departs from its known shape, new fields included."""


def parse_search_page(body: bytes) -> SearchPage:
    """The page that the body holds. Raises `ApiError`, with the path, when it holds no list of listings.

    What the crawl needs is a listing's id, code and year, read strictly after a coercion that loses nothing. All
    else is taken as it comes, and what departs from its known shape is counted.
    """
    top = read_object(body)
    found: Deviations = {}
    _note_new(found, "", top, _TOP_FIELDS)
    meta = _object(found, top, "meta")
    links = _object(found, top, "links")
    rejected: list[Reject] = []
    featured_rejected: list[Reject] = []
    data = top.get("data", _MISSING)
    number = len(data) if type(data) is list else 0
    weigh = len(body) > LARGEST_LISTING or may_be_deep(body) or may_have_many_values(body, number)
    listings = _listings(data, "data", rejected, found, weigh=weigh)
    featured = _featured(meta, featured_rejected, found, weigh=weigh)
    return SearchPage(
        _meta(found, meta, told="meta" in top),
        _links(found, links, told="links" in top),
        listings,
        tuple(rejected),
        featured,
        tuple(featured_rejected),
        found,
    )


def _note_new(found: Deviations, prefix: str, fields: dict[str, Any], known: Collection[str]) -> None:
    for name in fields:
        if name not in known:
            note(found, f"{prefix}{step(name)}", fields[name], _NEW)


def _object(found: Deviations, top: dict[str, Any], name: str) -> dict[str, Any]:
    value = top.get(name, _MISSING)
    if type(value) is dict:
        return value
    if value is _MISSING:
        note(found, name, None, MISSING)
    else:
        note(found, name, value)
    return {}


def _meta(found: Deviations, meta: dict[str, Any], *, told: bool) -> Meta:
    if not told:
        return Meta(None, None, None)
    _note_new(found, "meta.", meta, _META_FIELDS)
    counts = [_count(found, meta, name) for name in ("total", "totalPages", "currentPage")]
    return Meta(*counts)


def _count(found: Deviations, meta: dict[str, Any], name: str) -> int | None:
    """A whole number from 0, also when it is written as text or with a fraction of nothing."""
    value = meta.get(name, _MISSING)
    if type(value) is int and value >= 0:
        return value
    if value is _MISSING:
        note(found, f"meta.{name}", None, MISSING)
        return None
    note(found, f"meta.{name}", value)
    if type(value) is str and _WHOLE.fullmatch(value):
        return int(value)
    if type(value) is float and value.is_integer() and 0 <= value < 2**53:
        return int(value)
    return None


def _links(found: Deviations, links: dict[str, Any], *, told: bool) -> Links:
    if not told:
        return Links()
    _note_new(found, "links.", links, _LINK_FIELDS)
    if "self" not in links:
        note(found, "links.self", None, MISSING)
    read: dict[str, str] = {}
    for name in _LINK_FIELDS.intersection(links):
        value = links[name]
        if type(value) is str and value:
            read[name] = value
        elif value is not None:
            note(found, f"links.{name}", value)
    return Links(**read, is_last=not links.get("next"))


def _featured(
    meta: dict[str, Any], rejected: list[Reject], found: Deviations, *, weigh: bool
) -> tuple[Listing, ...]:
    holder = meta.get("featured_listings")
    if holder is None or holder == []:  # an empty object may come as an empty list
        return ()
    path = "meta.featured_listings"
    if type(holder) is not dict:
        note(found, path, holder)
        return ()
    _note_new(found, f"{path}.", holder, ("data",))
    entries = holder.get("data")
    if type(entries) is not list:
        note(found, f"{path}.data", entries, "" if "data" in holder else MISSING)
        return ()
    return _listings(entries, f"{path}.data", rejected, found, weigh=weigh)


def _listings(
    entries: Any, path: str, rejected: list[Reject], found: Deviations, *, weigh: bool
) -> tuple[Listing, ...]:
    """`weigh`: the body is so large, or has so many brackets, that one of them may go beyond its bounds."""
    if type(entries) is not list:
        raise ApiError(path, _departs(entries, "a list"))
    if len(entries) > MOST_LISTINGS:
        raise ApiError(path, f"holds {len(entries)} listings, where {MOST_LISTINGS} are enough")
    listings = []
    for position, entry in enumerate(entries):
        try:
            if weigh:
                _refuse_excess(entry)
            listings.append(_listing(entry, path, found))
        except _UnfitError as error:
            given = coerced_id(entry.get("id")) if type(entry) is dict else None
            known_id = given if type(given) is str and _ID.fullmatch(given) else None
            where = f".{error.path}" if error.path else ""
            rejected.append(Reject(known_id, f"{path}[{position}]{where}", error.problem))
    return tuple(listings)


def _refuse_excess(entry: Any) -> None:
    if problem := excess(entry):
        raise _UnfitError("", problem)


def _listing(entry: Any, path: str, found: Deviations) -> Listing:
    if type(entry) is not dict:
        raise _UnfitError("", _departs(entry, "an object"))
    given = entry.get("id", _MISSING)
    listing_id = coerced_id(given)
    if type(listing_id) is not str or not _ID.fullmatch(listing_id):
        raise _UnfitError("id", _departs(given, "a string of 1 to 64 letters, digits, - or _"))
    attributes = entry.get("attributes", _MISSING)
    if type(attributes) is not dict:
        raise _UnfitError("attributes", _departs(attributes, "an object"))
    for name in ("code", "year"):
        if name not in attributes:
            raise _UnfitError(f"attributes.{name}", "is missing")
    code, year = coerced_code(attributes["code"]), coerced_year(attributes["year"])
    problem = key_problem(code, year)
    if problem:
        raise _UnfitError(f"attributes.{problem[0]}", problem[1])
    if listing_id is not given:
        note(found, f"{path}[].id", given)
    if type(entry.get("type")) is not str:
        note(found, f"{path}[].type", entry.get("type"), "" if "type" in entry else MISSING)
    if len(entry) > 2:
        _note_new(found, f"{path}[].", entry, _LISTING_FIELDS)
    _note_attributes(found, f"{path}[].attributes.", attributes)
    return Listing(listing_id, attributes, code, year, web_url(attributes.get("website_url")))  # type: ignore[arg-type]


def _note_attributes(found: Deviations, prefix: str, attributes: dict[str, Any]) -> None:
    _ATTRIBUTES.note(found, prefix, attributes)
    image = attributes.get("image")
    if type(image) is dict:
        _IMAGE.note(found, f"{prefix}image.", image)
    types = attributes.get("seller_types")
    if type(types) is list:
        for value in types:
            if type(value) is not str:
                note(found, f"{prefix}seller_types[]", value)


def _departs(value: object, expected: str) -> str:
    return (
        f"is missing, where {expected} is due" if value is _MISSING else f"is {shown(value)}, not {expected}"
    )


def is_listing_id(given: object) -> bool:
    """Whether it can be the identifier of a listing."""
    return type(given) is str and _ID.fullmatch(given) is not None


class _Fields:
    """The fields that an object is known to have. A shape, its names in their order and the types of their values, in
    which nothing departs is looked at once: nearly all listings have one of a few.
    """

    _MOST = 512

    def __init__(self, known: Mapping[str, frozenset[type]], due: Collection[str]) -> None:
        self._known = known
        self._due = frozenset(due)
        self._usual: set[tuple[tuple[str, ...], tuple[type, ...]]] = set()

    def note(self, found: Deviations, prefix: str, fields: dict[str, Any]) -> None:
        """Count what departs."""
        shape = tuple(fields), tuple(map(type, fields.values()))
        if shape in self._usual:
            return
        departs = False
        for name, value in fields.items():
            allowed = self._known.get(name)
            if allowed is None:
                note(found, f"{prefix}{step(name)}", value, _NEW)
                departs = True
            elif type(value) not in allowed:
                note(found, f"{prefix}{name}", value)
                departs = True
        for name in self._due - fields.keys():
            note(found, f"{prefix}{name}", None, MISSING)
            departs = True
        if not departs and len(self._usual) < self._MOST:
            self._usual.add(shape)


class _UnfitError(Exception):
    """Carries what is wrong with one listing to where its position is known."""

    def __init__(self, path: str, problem: str) -> None:
        super().__init__(path, problem)
        self.path = path
        self.problem = problem


_MISSING = object()
_ATTRIBUTES = _Fields(ATTRIBUTE_TYPES, ATTRIBUTE_TYPES.keys() - {"code", "year"})
_IMAGE = _Fields(IMAGE_TYPES, IMAGE_TYPES.keys())
