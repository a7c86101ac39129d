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
    reader = _Reader()
    values = list[Any]()
    for column, is_quantity, labels in _OF_SPECS:
        raws = [raw for label in labels for raw in told.get(label, ())]
        values.append(reader.quantity(column, raws) if is_quantity else reader.first_text(column, raws))
    fallbacks = tuple(
        tuple(raw for label in labels for raw in told.get(label, ())) for _, labels in _FALLBACKS
    )
    is_usual = all(type(raw) is str and len(raw) <= LONGEST for raws in fallbacks for raw in raws)
    by_column = _shared_by_column if is_usual else _by_column
    return SpecColumns(tuple(values), reader.unread or _NOTHING, by_column(fallbacks))


def typed_row(attributes: Mapping[str, Any], specs: Iterable[Any] | SpecColumns | None) -> TypedRow:
    """The row of a car from its attributes and the groups of its specification, both as the API gave them.

    Of several labels of one column, and of a label that comes several times, the first value that can be
    read counts. For cars that share a specification, what `spec_columns` made of it may be given in place
    of the groups: the row is the same, in less than half the time.
    """
    if not isinstance(specs, SpecColumns):
        specs = spec_columns(specs)
    get, fallbacks, reader = attributes.get, specs.fallbacks, _Reader()
    row = dict(zip(COLUMNS_OF_SPECS, specs.values, strict=True))
    for column, attribute in _TEXTS:
        row[column] = reader.text(column, get(attribute))
    for column, attribute, coerced in _COERCED_TEXTS:
        row[column] = reader.text(column, coerced(get(attribute)))
    for column in _TEXTS_WITH_FALLBACK:
        if row[column] is None:
            row[column] = reader.first_text(column, fallbacks[column])
    for declared, attribute, inner in _NUMBERS:
        raw = get(attribute)
        if inner and type(raw) is dict:
            raw = raw.get(inner)
        row[declared.name] = reader.number(declared, raw)
    for column, attribute in _QUANTITIES:
        row[column] = reader.quantity(column, (get(attribute), *fallbacks.get(column, ())))
    page = get("website_url")
    if page is not None and not web_url(page) and reader.text("url", page):
        reader.unread["url"] = page
    return TypedRow(_in_order(row), {**reader.unread, **specs.unread})


@lru_cache(maxsize=4096)
def _known_label(label: str) -> str | None:
    """The label as it is looked for, whatever its case; None when nothing is looked for under it."""
    folded = label.strip().casefold()
    return folded if folded in _KNOWN_LABELS else None


def _by_column(fallbacks: tuple[tuple[Any, ...], ...]) -> Mapping[str, tuple[Any, ...]]:
    return {column: raws for (column, _), raws in zip(_FALLBACKS, fallbacks, strict=True)}


_shared_by_column = lru_cache(maxsize=1024)(_by_column)
"""There are few different ones."""


class _Reader:
    """Reads the columns of one row and remembers what it could not read."""

    __slots__ = ("unread",)

    def __init__(self) -> None:
        self.unread: dict[str, Any] = {}

    def text(self, column: str, raw: Any) -> str | None:
        if raw is None:
            return None
        if type(raw) is not str:
            self.unread.setdefault(column, raw)
            return None
        text = raw.strip()
        return None if len(text) <= _LONGEST_NULL and text.casefold() in NULLS else text

    def first_text(self, column: str, raws: Iterable[Any]) -> str | None:
        for raw in raws:
            text = self.text(column, raw)
            if text is not None:
                self.unread.pop(column, None)
                return text
        return None

    def number(self, column: Column, raw: Any) -> int | float | None:
        if column.coerced is not None:
            raw = column.coerced(raw)
        if raw is None:
            return None
        if type(raw) in (int, float) and column.least <= raw <= column.most:
            value = _in_type(raw, column.kind)
            if value is not None:
                return value or (None if column.zero_is_null else value)
        self.unread[column.name] = raw
        return None

    def quantity(self, column: str, raws: Iterable[Any]) -> Any:
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
            self.unread[column] = doubtful
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

_in_order = itemgetter(*COLUMNS)
_NOTHING: Mapping[str, Any] = MappingProxyType({})
_READS = {column.name: _quantity_reader(column) for column in DECLARED if column.unit is not None}
_OF_SPECS = [
    (column.name, column.unit is not None, _folded(column)) for column in DECLARED if not column.attribute
]
COLUMNS_OF_SPECS = tuple(column for column, _, _ in _OF_SPECS)
"""Those that come from the specification alone, in their order."""
_OF_LISTINGS = [(column, column.attribute) for column in DECLARED if column.attribute]
_FALLBACKS = [(column.name, _folded(column)) for column, _ in _OF_LISTINGS if column.labels]
_ALL_TEXTS = [(column, name) for column, name in _OF_LISTINGS if column.kind is str]
_TEXTS = [(column.name, name) for column, name in _ALL_TEXTS if not column.coerced]
_COERCED_TEXTS = [(column.name, name, column.coerced) for column, name in _ALL_TEXTS if column.coerced]
_TEXTS_WITH_FALLBACK = [column.name for column, _ in _ALL_TEXTS if column.labels]
_QUANTITIES = [(column.name, name) for column, name in _OF_LISTINGS if column.unit is not None]
_NUMBERS = [
    (column, name.partition(".")[0], name.partition(".")[2])
    for column, name in _OF_LISTINGS
    if column.kind is not str and column.unit is None
]
_KNOWN_LABELS = {label for column in DECLARED for label in _folded(column)}
_LONGEST_NULL = max(len(null) for null in NULLS)
