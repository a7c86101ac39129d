"""A page of listings: bytes in, checked listings out, and what does not fit named by its path."""

from __future__ import annotations

import re
from dataclasses import dataclass
from types import NoneType
from typing import Any

from carscraper.api.body import LARGEST_LISTING, excess, may_be_deep, read_object, shown, step
from carscraper.api.endpoints import key_problem, web_url
from carscraper.exceptions import ApiError

_WHOLE = re.compile(r"[0-9]{1,19}")
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
"""Each attribute and the types that its value may have. Only `code` and `year` must be there."""

IMAGE_TYPES: dict[str, frozenset[type]] = {
    "version": _INTEGER,
    "count": _INTEGER,
    "path": _TEXT,
    "name": _TEXT,
    "extension": _TEXT,
}

_TYPE_NAMES = {
    str: "a string",
    int: "an integer",
    float: "a number",
    dict: "an object",
    list: "a list",
    NoneType: "null",
}
_TOP_FIELDS = frozenset({"meta", "links", "data"})
_META_FIELDS = frozenset({"total", "totalPages", "currentPage", "featured_listings"})
_LINK_FIELDS = frozenset({"self", "first", "next", "prev", "last"})
_LISTING_FIELDS = frozenset({"type", "id", "attributes"})


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
    """Absolute URLs of pages. `last` is not aligned to a page: for showing, not for following."""

    self: str
    first: str | None = None
    next: str | None = None
    """None on the last page."""
    prev: str | None = None
    last: str | None = None


@dataclass(frozen=True, slots=True)
class Listing:
    """One car on offer. Its `code` and `year` are fit to ask for a specification."""

    id: str
    attributes: dict[str, Any]
    """As the API gave them."""
    code: str
    year: int
    url: str
    """Its page for humans; empty when the API gave none that is http(s)."""


@dataclass(frozen=True, slots=True)
class Misfit:
    """A listing that does not have the known shape and is set aside; its neighbours are not affected."""

    id: str | None
    """None when the id itself is missing or not one."""
    path: str
    """Leads to the first value that does not fit, as in `data[3].attributes.code`."""
    problem: str


@dataclass(frozen=True, slots=True)
class SearchPage:
    """One answer of the search, checked. `listings`, `misfits` and `featured` are all that it held."""

    meta: Meta
    links: Links
    listings: tuple[Listing, ...]
    """In the order of the API: newest first, but for featured ones."""
    misfits: tuple[Misfit, ...]
    """Of `data` and of the featured listings; the path tells which."""
    featured: tuple[Listing, ...]
    """From `meta.featured_listings.data`; they may be in `listings` of this or another page too."""
    unknown: frozenset[str]
    """Paths of unknown fields, without positions, as in `data[].attributes.sunroof`."""


def parse_search_page(body: bytes) -> SearchPage:
    """The page that the body holds. Raises `ApiError`, with the path, when the page as a whole is not one."""
    top = read_object(body)
    unknown: set[str] = set()
    _note_unknown("", top, _TOP_FIELDS, unknown)
    meta_fields = _object(top, "meta")
    _note_unknown("meta.", meta_fields, _META_FIELDS, unknown)
    meta = Meta(
        total=_total(meta_fields.get("total")),
        total_pages=_count(meta_fields, "totalPages"),
        current_page=_count(meta_fields, "currentPage"),
    )
    links = _links(_object(top, "links"), unknown)
    misfits: list[Misfit] = []
    weigh = len(body) > LARGEST_LISTING or may_be_deep(body)
    listings = _listings(top, "data", "data", misfits, unknown, weigh=weigh)
    featured = _featured(meta_fields, misfits, unknown, weigh=weigh)
    return SearchPage(meta, links, listings, tuple(misfits), featured, frozenset(unknown))


def _note_unknown(prefix: str, fields: dict[str, Any], known: frozenset[str], unknown: set[str]) -> None:
    if not known.issuperset(fields):
        unknown.update(prefix + step(name) for name in fields.keys() - known)


def _object(top: dict[str, Any], name: str) -> dict[str, Any]:
    value = top.get(name, _MISSING)
    if type(value) is not dict:
        raise ApiError(name, _departs(value, "an object"))
    return value


def _count(meta: dict[str, Any], name: str) -> int | None:
    value = meta.get(name)
    if value is not None and (type(value) is not int or value < 0):
        raise ApiError(f"meta.{name}", _departs(value, "an integer from 0"))
    return value


def _total(value: Any) -> int | None:
    if type(value) is str and _WHOLE.fullmatch(value):
        return int(value)
    return value if type(value) is int and value >= 0 else None


def _links(links: dict[str, Any], unknown: set[str]) -> Links:
    _note_unknown("links.", links, _LINK_FIELDS, unknown)
    for name in _LINK_FIELDS:
        value = links.get(name)
        if value is not None and (type(value) is not str or not value):
            raise ApiError(f"links.{name}", _departs(value, "a link"))
    if links.get("self") is None:
        raise ApiError("links.self", _departs(links.get("self", _MISSING), "a link"))
    return Links(*(links.get(name) for name in ("self", "first", "next", "prev", "last")))  # type: ignore[arg-type]


def _featured(
    meta: dict[str, Any], misfits: list[Misfit], unknown: set[str], *, weigh: bool
) -> tuple[Listing, ...]:
    holder = meta.get("featured_listings")
    if holder is None or holder == []:  # an empty object may come as an empty list
        return ()
    path = "meta.featured_listings"
    if type(holder) is not dict:
        raise ApiError(path, _departs(holder, "an object"))
    _note_unknown(f"{path}.", holder, frozenset({"data"}), unknown)
    return _listings(holder, "data", f"{path}.data", misfits, unknown, weigh=weigh)


def _listings(
    holder: dict[str, Any], name: str, path: str, misfits: list[Misfit], unknown: set[str], *, weigh: bool
) -> tuple[Listing, ...]:
    """`weigh`: the body is so large, or has so many brackets, that one of them may go beyond its bounds."""
    entries = holder.get(name, _MISSING)
    if type(entries) is not list:
        raise ApiError(path, _departs(entries, "a list"))
    found = []
    for position, entry in enumerate(entries):
        try:
            if weigh:
                _refuse_excess(entry)
            found.append(_listing(entry, path, unknown))
        except _UnfitError as error:
            given = entry.get("id") if type(entry) is dict else None
            known_id = given if type(given) is str and _ID.fullmatch(given) else None
            where = f".{error.path}" if error.path else ""
            misfits.append(Misfit(known_id, f"{path}[{position}]{where}", error.problem))
    return tuple(found)


def _refuse_excess(entry: Any) -> None:
    if problem := excess(entry):
        raise _UnfitError("", problem)


def _listing(entry: Any, path: str, unknown: set[str]) -> Listing:
    if type(entry) is not dict:
        raise _UnfitError("", _departs(entry, "an object"))
    _note_unknown(f"{path}[].", entry, _LISTING_FIELDS, unknown)
    listing_id = entry.get("id", _MISSING)
    if type(listing_id) is not str or not _ID.fullmatch(listing_id):
        raise _UnfitError("id", _departs(listing_id, "a string of 1 to 64 letters, digits, - or _"))
    if type(entry.get("type", "")) is not str:
        raise _UnfitError("type", _departs(entry["type"], "a string"))
    attributes = entry.get("attributes", _MISSING)
    if type(attributes) is not dict:
        raise _UnfitError("attributes", _departs(attributes, "an object"))
    for name, value in attributes.items():
        allowed = ATTRIBUTE_TYPES.get(name)
        if allowed is None:
            unknown.add(f"{path}[].attributes.{step(name)}")
        elif type(value) not in allowed:
            raise _UnfitError(f"attributes.{name}", _departs(value, _either(allowed)))
    _check_nested(attributes, path, unknown)
    code, year = attributes.get("code", _MISSING), attributes.get("year", _MISSING)
    for name, value in (("code", code), ("year", year)):
        if value is _MISSING:
            raise _UnfitError(f"attributes.{name}", "is missing")
    problem = key_problem(code, year)
    if problem:
        raise _UnfitError(f"attributes.{problem[0]}", problem[1])
    return Listing(listing_id, attributes, code, year, web_url(attributes.get("website_url")))


def _check_nested(attributes: dict[str, Any], path: str, unknown: set[str]) -> None:
    for name, value in attributes.get("image", {}).items():
        allowed = IMAGE_TYPES.get(name)
        if allowed is None:
            unknown.add(f"{path}[].attributes.image.{step(name)}")
        elif type(value) not in allowed:
            raise _UnfitError(f"attributes.image.{name}", _departs(value, _either(allowed)))
    for position, value in enumerate(attributes.get("seller_types", ())):
        if type(value) is not str:
            raise _UnfitError(f"attributes.seller_types[{position}]", _departs(value, "a string"))


def _departs(value: object, expected: str) -> str:
    return (
        f"is missing, where {expected} is due" if value is _MISSING else f"is {shown(value)}, not {expected}"
    )


def _either(allowed: frozenset[type]) -> str:
    named = allowed - {int} if float in allowed else allowed
    return " or ".join(sorted((_TYPE_NAMES[kind] for kind in named), key=lambda text: (text == "null", text)))


def is_listing_id(given: object) -> bool:
    """Whether it can be the identifier of a listing."""
    return type(given) is str and _ID.fullmatch(given) is not None


class _UnfitError(Exception):
    """Carries what is wrong with one listing to where its position is known."""

    def __init__(self, path: str, problem: str) -> None:
        super().__init__(path, problem)
        self.path = path
        self.problem = problem


_MISSING = object()
