"""The lines of `changes.jsonl`: made, told apart, and applied to a catalogue.

Each is a JSON object that begins with the same members, so that a line can be told without parsing it:

    {"id": "<24 hex digits>", "kind": KIND, "listing": ID,        what it is of; "" in a line of kind "run"
     "run": CRAWL ID, "at": "2026-11-20T10:15:00Z",               the crawl that found it, and when that was published
     "car": {"make", "model", "year", "price"},                   as last known, where the API gave them
     "record": {…}                                                added, returned: the whole record
     "fields": {"car_attrs.price": {"before": 1, "after": 2}}}    price, changed: one that is missing had no value

The lines of a run end in one of kind `run`, which names the two snapshots that they lead from and to. `id` is made of
the first of these, the run, the listing and the kind, so a line that is written again has the same.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, MutableMapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from hashlib import blake2b
from typing import Any, NamedTuple

import orjson

ADDED, REMOVED, PRICE, CHANGED, RETURNED = "added", "removed", "price", "changed", "returned"
ERASED, RUN = "erased", "run"
FOUND = (ADDED, REMOVED, PRICE, CHANGED, RETURNED)
"""The kinds that a comparison finds."""
KINDS = (*FOUND, ERASED, RUN)

_HEAD = re.compile(
    rb'\{"id":"[0-9a-f]{24}","kind":"([a-z]+)","listing":"([0-9A-Za-z_-]{0,64})"'
    rb',"run":"([0-9A-Za-z_-]*)","at":"([0-9TZ:-]*)"[,}]'
)
_ATTRIBUTES = "car_attrs."
_PRICE = f"{_ATTRIBUTES}price"
_SHOWN = ("make", "model", "year", "price")
_LONGEST = 200
"""Characters of such a value; what is longer is no name."""

Record = dict[str, Any]
Fields = dict[str, dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Step:
    """From which snapshot, by which crawl, and when."""

    run: str
    at: str
    before: str | None
    """Digest of the snapshot that was there; None: there was none that could be read."""

    def line(self, kind: str, listing: str, **members: Any) -> bytes:
        """One line of `changes.jsonl`."""
        source = f"{self.before} {self.run} {kind} {listing}".encode()
        head = {"id": blake2b(source, digest_size=12).hexdigest(), "kind": kind, "listing": listing}
        return orjson.dumps(
            {**head, "run": self.run, "at": self.at, **members}, option=orjson.OPT_APPEND_NEWLINE
        )


class Head(NamedTuple):
    """What every line begins with."""

    kind: str
    listing: str
    run: str
    at: str


def head_of(line: bytes) -> Head | None:
    """The beginning of a line, without parsing the rest; None when it is none of ours."""
    found = _HEAD.match(line)
    return Head(*(part.decode() for part in found.groups())) if found else None


def tombstone(listing: str, last_run: str, at: str) -> bytes:
    """The line that says that a listing was erased after that run."""
    return Step("", at, last_run).line(ERASED, listing)


def arrival(step: Step, kind: str, record: Record) -> bytes:
    """The line of a listing that was not there before."""
    return step.line(kind, record["id"], car=shown(record), record=record)


def departure(step: Step, record: Record, left_out: Collection[str] = ()) -> bytes:
    """The line of a listing that is not there any more, without the attributes that are not to be kept."""
    car = {name: value for name, value in shown(record).items() if not _is_left_out(name, left_out)}
    return step.line(REMOVED, record["id"], car=car)


def alterations(step: Step, before: Record, after: Record, left_out: Iterable[str]) -> list[bytes]:
    """The lines of a listing that is there in both: one for its price, one for all else; none when only the time at
    which it was read has changed.

    Attributes that match `left_out` are not to be kept: of one that has gone, no value is told.
    """
    fields = differences(before, after, left_out)
    price = {name: fields.pop(name) for name in list(fields) if name == _PRICE}
    found = ((PRICE, price), (CHANGED, fields))
    return [
        step.line(kind, after["id"], car=shown(after), fields=changed) for kind, changed in found if changed
    ]


def differences(before: Record, after: Record, left_out: Iterable[str] = ()) -> Fields:
    """The fields of two records that differ, attributes one by one, `car_specs` as a whole; not `scraped_at`."""
    old, new = _flat(before), _flat(after)
    found: Fields = {}
    for name in old.keys() | new.keys():
        was, now = old.get(name, _ABSENT), new.get(name, _ABSENT)
        if was is _ABSENT or now is _ABSENT or _text(was) != _text(now):
            values = {"before": was, "after": now}
            found[name] = {key: value for key, value in values.items() if value is not _ABSENT}
    for name in [name for name, values in found.items() if "after" not in values]:
        if _is_left_out(name.removeprefix(_ATTRIBUTES), left_out):
            found[name] = {}
    return dict(sorted(found.items()))


def replay(records: MutableMapping[str, Record], lines: Iterable[bytes | Mapping[str, Any]]) -> None:
    """Bring a catalogue, records by their ids, to where the lines lead, which may come more than once. What does not
    change keeps its `scraped_at`: that is when it was read, and no change.
    """
    for line in lines:
        change: Mapping[str, Any] = orjson.loads(line) if isinstance(line, bytes) else line
        listing = change["listing"]
        match change["kind"]:
            case "added" | "returned":
                records[listing] = change["record"]
            case "removed" | "erased":
                records.pop(listing, None)
            case "price" | "changed" if listing in records:
                records[listing] = _applied(records[listing], change["fields"])


def shown(record: Record) -> Record:
    """What tells people which car it is."""
    attributes = record["car_attrs"]
    values = {name: attributes[name] for name in _SHOWN if name in attributes}
    return {
        name: value
        for name, value in values.items()
        if isinstance(value, int | float) or (isinstance(value, str) and len(value) <= _LONGEST)
    }


def _is_left_out(attribute: str, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(attribute, pattern) for pattern in patterns)


class _Absent:
    """In place of a value that is not there, which null is not."""


_ABSENT = _Absent()


def _flat(record: Record) -> dict[str, Any]:
    attributes = {f"{_ATTRIBUTES}{name}": value for name, value in record["car_attrs"].items()}
    return {"url": record["url"], "car_specs": record["car_specs"], **attributes}


def _text(value: Any) -> bytes:
    """To compare by: 1, 1.0 and true are three values."""
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)


def _applied(record: Record, fields: Mapping[str, Mapping[str, Any]]) -> Record:
    done = {**record, "car_attrs": dict(record["car_attrs"])}
    for name, values in fields.items():
        place, key = (done, name)
        if name.startswith(_ATTRIBUTES):
            place, key = done["car_attrs"], name.removeprefix(_ATTRIBUTES)
        if "after" in values:
            place[key] = values["after"]
        else:
            place.pop(key, None)
    return done
