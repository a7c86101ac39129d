"""One flat, typed row per car, made of its attributes and its specification as `columns.py` declares it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from operator import itemgetter
from types import MappingProxyType
from typing import Any

from carscraper.api.columns import COLUMNS, DECLARED, Column
from carscraper.api.endpoints import web_url
from carscraper.api.quantities import LONGEST, NULLS, UNREADABLE, read

_PLACES = {name: place for place, name in enumerate(COLUMNS)}


@dataclass(slots=True)
class TypedRow:
    """One car as a flat row; a value is also an attribute by the name of its column, as in `row.price_zar`.

    Beside it stand the listing's id, its URL and its times. Left out, since only the raw record does them
    justice: description, options, the image's address, and codes whose meaning is not known. (Not frozen: to make
    one would take more than twice as long.)
    """

    values: tuple[Any, ...]
    """In the order of `COLUMNS`, None where the API gives no value or none that is read."""
    unread: dict[str, Any] = field(default_factory=dict, compare=False)
    """The raw value of each column that is None only because it could not be read; of `url`, the address that is none
    of a page, too.
    """

    def __getattr__(self, name: str) -> Any:
        place = _PLACES.get(name)
        if place is None:
            raise AttributeError(name)
        return self.values[place]


@dataclass(frozen=True, slots=True)
class SpecColumns:
    """What a specification says of every car that has it, made once for all of them by `spec_columns`. Thousands are
    kept, so there is little of each: no names of columns, and fallbacks that others share.
    """

    values: tuple[Any, ...]
    """Of the columns `COLUMNS_OF_SPECS`."""
    unread: Mapping[str, Any]
    """Of those columns, as in `TypedRow.unread`."""
    fallbacks: Mapping[str, tuple[Any, ...]]
    """Raw values of the columns that the listing tells first, for the listings that do not tell."""


def spec_columns(specs: Iterable[Any] | None) -> SpecColumns:
    """What the groups of a specification, as the API gave them, say of every car that has it; nothing when they could
    not be had (None). What is no group, or none of label and value, says nothing.
    """
    told: dict[str, list[Any]] = {}
    for group in specs or ():
        attrs = group.get("attrs") if type(group) is dict else None
        for attr in attrs if type(attrs) is list else ():
            label = attr.get("label") if type(attr) is dict else None
            known = _known_label(label) if type(label) is str and len(label) <= LONGEST else None
            if known is not None:
                told.setdefault(known, []).append(attr.get("value"))
    values, unread = list[Any](), dict[str, Any]()
    for column, first, labels in _OF_SPECS:
        raws = [raw for label in labels for raw in told.get(label, ())]
        values.append(first(column, raws, unread))
    fallbacks = tuple(
        tuple(raw for label in labels for raw in told.get(label, ())) for _, labels in _FALLBACKS
    )
    is_usual = all(type(raw) is str and len(raw) <= LONGEST for raws in fallbacks for raw in raws)
    by_column = _shared_by_column if is_usual else _by_column
    return SpecColumns(tuple(values), unread or _NOTHING, by_column(fallbacks))


def typed_row(attributes: Mapping[str, Any], specs: Iterable[Any] | SpecColumns | None) -> TypedRow:
    """The row of a car from its attributes and the groups of its specification, both as the API gave them.

    Of several labels of one column, and of a label that comes several times, the first value that can be
    read counts. For cars that share a specification, what `spec_columns` made of it may be given in place
    of the groups: the row is the same, in less than half the time.
    """
    if not isinstance(specs, SpecColumns):
        specs = spec_columns(specs)
    get, fallbacks, unread = attributes.get, specs.fallbacks, dict[str, Any]()
    values = list(_in_order((*specs.values, None)))
    for place, column, attribute, coerced in _TEXTS:
        raw = get(attribute)
        text = _text(coerced(raw) if coerced else raw)
        if text is not UNREADABLE:
            values[place] = text
        else:
            unread[column] = raw
    for place, column in _TEXTS_WITH_FALLBACK:
        if values[place] is None:
            values[place] = _first_text(column, fallbacks[column], unread)
    for place, declared, attribute, inner in _NUMBERS:
        raw = get(attribute)
        if inner and type(raw) is dict:
            raw = raw.get(inner)
        if declared.coerced:
            raw = declared.coerced(raw)
        value = _number(declared, raw)
        if value is not UNREADABLE:
            values[place] = value
        else:
            unread[declared.name] = raw
    for place, column, attribute in _QUANTITIES:
        values[place] = _quantity(column, (get(attribute), *fallbacks.get(column, ())), unread)
    page = get("website_url")
    if page is not None and not web_url(page) and _text(page):
        unread["url"] = page
    return TypedRow(tuple(values), {**unread, **specs.unread})


@lru_cache(maxsize=4096)
def _known_label(label: str) -> str | None:
    """The label as it is looked for, whatever its case; None when nothing is looked for under it."""
    folded = label.strip().casefold()
    return folded if folded in _KNOWN_LABELS else None


def _by_column(fallbacks: tuple[tuple[Any, ...], ...]) -> Mapping[str, tuple[Any, ...]]:
    return {column: raws for (column, _), raws in zip(_FALLBACKS, fallbacks, strict=True)}


_shared_by_column = lru_cache(maxsize=1024)(_by_column)
"""There are few different ones."""


def _text(raw: Any) -> Any:
    """The text without blanks around it; None where it says that there is none, `UNREADABLE` for what is no text."""
    if type(raw) is not str:
        return None if raw is None else UNREADABLE
    text = raw.strip()
    return None if len(text) <= _LONGEST_NULL and text.casefold() in NULLS else text


def _first_text(column: str, raws: Iterable[Any], unread: dict[str, Any]) -> str | None:
    """The first of several; when there is none, the first of what is no text is noted as not read."""
    for raw in raws:
        text = _text(raw)
        if text is UNREADABLE:
            unread.setdefault(column, raw)
        elif text is not None:
            unread.pop(column, None)
            return text  # type: ignore[no-any-return]
    return None


def _number(column: Column, raw: Any) -> Any:
    """The number in the column's type; None where there is none, `UNREADABLE` for all else."""
    if raw is None:
        return None
    if type(raw) in (int, float) and column.least <= raw <= column.most:
        value = _in_type(raw, column.kind)
        if value is not None:
            return None if column.zero_is_null and not value else value
    return UNREADABLE


def _quantity(column: str, raws: Iterable[Any], unread: dict[str, Any]) -> Any:
    """The first of several; when there is none, the first that tells something else is noted as not read."""
    doubtful, reads = None, _READS[column]
    for raw in raws:
        if raw is None:
            continue
        value = reads(raw) if type(raw) is str and len(raw) <= LONGEST else UNREADABLE
        if value is UNREADABLE:
            doubtful = raw if doubtful is None else doubtful
        elif value is not None:
            return value
    if doubtful is not None:
        unread[column] = doubtful
    return None


def _in_type(number: int | float, kind: type) -> int | float | None:
    """The number as a float, or as an int; None when it has a fraction and an int is due."""
    if kind is float:
        return float(number)
    whole = int(number)
    return whole if whole == number else None


def _quantity_reader(column: Column) -> Callable[[str], object]:
    """What `read` gives, in the column's type; a number that does not fit it without loss is not read."""
    unit, kind = column.unit or "", column.kind

    @lru_cache(maxsize=8192)
    def reads(text: str) -> object:
        value = read(text, unit)
        if value is None or value is UNREADABLE:
            return value
        fitting = _in_type(value, kind)  # type: ignore[arg-type]
        return UNREADABLE if fitting is None else fitting

    return reads


def _folded(column: Column) -> tuple[str, ...]:
    return tuple(label.casefold() for label in column.labels)


# What `DECLARED` comes to, in the order in which a row is made: by the kind of source, since each takes one loop.

_NOTHING: Mapping[str, Any] = MappingProxyType({})
_READS = {column.name: _quantity_reader(column) for column in DECLARED if column.unit is not None}
_OF_SPECS = [
    (column.name, _first_text if column.unit is None else _quantity, _folded(column))
    for column in DECLARED
    if not column.attribute
]
COLUMNS_OF_SPECS = tuple(column for column, _, _ in _OF_SPECS)
"""Those that come from the specification alone, in their order."""
_in_order = itemgetter(
    *(COLUMNS_OF_SPECS.index(name) if name in COLUMNS_OF_SPECS else len(COLUMNS_OF_SPECS) for name in COLUMNS)
)
"""The values of these in the places of a row, and what stands behind them in all others."""
_OF_LISTINGS = [(_PLACES[column.name], column, column.attribute) for column in DECLARED if column.attribute]
_FALLBACKS = [(column.name, _folded(column)) for _, column, _ in _OF_LISTINGS if column.labels]
_ALL_TEXTS = [(place, column, name) for place, column, name in _OF_LISTINGS if column.kind is str]
_TEXTS = sorted(
    ((place, column.name, name, column.coerced) for place, column, name in _ALL_TEXTS),
    key=lambda text: text[3] is not None,
)
_TEXTS_WITH_FALLBACK = [(place, column.name) for place, column, _ in _ALL_TEXTS if column.labels]
_QUANTITIES = [(place, column.name, name) for place, column, name in _OF_LISTINGS if column.unit is not None]
_NUMBERS = [
    (place, column, name.partition(".")[0], name.partition(".")[2])
    for place, column, name in _OF_LISTINGS
    if column.kind is not str and column.unit is None
]
_KNOWN_LABELS = {label for column in DECLARED for label in _folded(column)}
_LONGEST_NULL = max(len(null) for null in NULLS)
