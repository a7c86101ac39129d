"""What goes wrong on request: rules that say which requests get which fault, how often, and how.

A rule is a JSON object:

    {"match": "/specs/.*/2017$", "fault": "status", "status": 503, "retry_after": "5", "times": 2}

`match` is a regular expression searched for in the raw `path?query` (default: every request). Of the
requests that match, the first `after` (default 0) are spared, then at most `times` (default null: all) are
hit, each with `probability` (default 1.0). With `"per": "target"` (default `"rule"`), `after` and `times`
count for each different `path?query` by itself, so that `"times": 1` makes every first try fail and every
second one succeed. The first rule that hits decides. What is left are the options of the fault; `FAULTS`
lists them with their defaults.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from carscraper.demo.dice import Dice
from scrapy_durable.exceptions import ConfigurationError

N = TypeVar("N", int, float)

FAULTS: Final[dict[str, dict[str, Any]]] = {
    # Another status; `retry_after` is sent verbatim when it is not empty.
    "status": {"status": 503, "retry_after": "", "body": ""},
    # The right answer, late.
    "delay": {"seconds": 1.0},
    # No answer at all: the connection stays open until the client gives up.
    "hang": {},
    # The right answer, `bytes` at a time, every `seconds`.
    "drip": {"seconds": 1.0, "bytes": 1},
    # The connection is reset (RST) before the answer.
    "reset": {},
    # Half of the body; `way` is `length` (Content-Length says more), `chunked` (no last chunk), `close`
    # (ended by closing, as HTTP/1.0 does) or `gzip` (the compressed stream ends early, HTTP itself is in
    # order).
    "truncate": {"way": "length"},
    # An HTML page where JSON belongs.
    "html": {"status": 200},
    # A "Just a moment..." page, as challenges in front of a site show it.
    "challenge": {"status": 403},
    # 200 and no body.
    "empty": {},
    # The right answer, its last brace replaced by a comma.
    "bad_json": {},
    # The right answer behind a byte order mark.
    "bom": {},
    # The right answer in `encoding`, with a Content-Type that says `declared`.
    "charset": {"encoding": "utf-16", "declared": "utf-8"},
    # To `location`, verbatim; to the same target again when it is empty.
    "redirect": {"location": "", "status": 302},
    # A JSON string of `bytes` bytes; `sized` says whether Content-Length tells so in advance.
    "huge": {"bytes": 1 << 30, "sized": True},
    # `bytes` zero bytes, compressed; `encoding` is `gzip`, `br` or `zstd`.
    "bomb": {"encoding": "gzip", "bytes": 1 << 30},
    # The right answer with one value changed: `path` is like `data[3].attributes.code`, `[*]` means every
    # element; `do` is `drop`, `null`, `rename` (to the key `to`) or `set` (to the value `to`, also where there was
    # none).
    "edit": {"path": "data[0].attributes.code", "do": "drop", "to": None},
    # The right answer with values set in its rows, the same ones in every answer: `sets` are pairs of a path in a row
    # of `data`, featured ones included, or with `whole` in the whole answer, and of a value; the value {"drop": true}
    # takes the member away. Of the rows those are hit whose id leaves less than `share` when divided by 100.
    "shape": {"sets": [], "share": 100, "whole": False},
    # A page of listings that names a `next` one, also past the end, unless that is false; with `listings`, its rows are
    # those at its offset modulo that, so that they come again and again; with `total`, it tells that one.
    "endless": {"next": True, "listings": 0, "total": 0},
}
_CHOICES: Final[dict[tuple[str, str], tuple[str, ...]]] = {
    ("truncate", "way"): ("length", "chunked", "close", "gzip"),
    ("bomb", "encoding"): ("gzip", "br", "zstd"),
    ("edit", "do"): ("drop", "null", "rename", "set"),
}
_STEP = re.compile(r"\[(\d+|\*)\]|(?:^|\.)([^.\[\]]+)")


@dataclass(frozen=True, slots=True)
class Fault:
    """A kind of fault, a key of `FAULTS`, with a value for each of its options."""

    kind: str
    options: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Rule:
    """Which requests a fault hits; see the module for the meaning of the members."""

    match: re.Pattern[str]
    fault: Fault
    times: int | None
    after: int
    per_target: bool
    probability: float


class FaultScript:
    """Rules, and the counts of what they have seen and hit so far."""

    def __init__(self, rules: list[Rule], seed: int = 1) -> None:
        self._rules = rules
        self._seed = seed
        self._seen: Counter[tuple[int, str]] = Counter()
        self._hits: Counter[tuple[int, str]] = Counter()

    def choose(self, target: str) -> Fault | None:
        """The fault for a request of `target` (raw `path?query`); None when it is answered rightly.

        Whether a probability hits depends on the seed, the rule, the target, and how many times that target
        was asked for: not on the order in which different targets arrive.
        """
        for place, rule in enumerate(self._rules):
            if not rule.match.search(target):
                continue
            counted = (place, target if rule.per_target else "")
            self._seen[counted] += 1
            if self._seen[counted] <= rule.after:
                continue
            if rule.times is not None and self._hits[counted] >= rule.times:
                continue
            if rule.probability < 1.0 and not self._drawn(place, target, rule.probability):
                continue
            self._hits[counted] += 1
            return rule.fault
        return None

    def _drawn(self, place: int, target: str, probability: float) -> bool:
        asked = (place, f"draws of {target}")
        self._seen[asked] += 1
        return Dice(self._seed, "fault", place, target, self._seen[asked]).fraction() < probability


def parse_rules(documents: object) -> list[Rule]:
    """The rules in a JSON array; raises ConfigurationError, which names the rule and the member."""
    if not isinstance(documents, list):
        raise ConfigurationError("faults: not a list of rules")
    return [_rule(f"faults[{place}]", document) for place, document in enumerate(documents)]


def parse_fault(where: str, kind: object, options: Mapping[str, object]) -> Fault:
    """A fault from its name and options; raises ConfigurationError, which starts with `where`.

    A whole number given as text is taken as a number where one is wanted, so that a query can hold the
    options.
    """
    if not isinstance(kind, str) or kind not in FAULTS:
        raise ConfigurationError(f"{where}: no such fault: {kind!r} (there are {', '.join(FAULTS)})")
    known = dict(FAULTS[kind])
    for name, value in options.items():
        if name not in known:
            raise ConfigurationError(f"{where}: {kind} has no option {name!r}")
        known[name] = _option(f"{where}.{name}", (kind, name), value)
    if kind == "edit" and not _STEP.findall(known["path"]):
        raise ConfigurationError(
            f"{where}.path: not a path such as data[0].attributes.code: {known['path']!r}"
        )
    if kind == "edit" and known["do"] == "rename" and not isinstance(known["to"], str):
        raise ConfigurationError(f"{where}.to: not a name: {known['to']!r}")
    return Fault(kind, known)


def fault_of_query(text: str) -> Fault:
    """The fault that the query parameter `fault` asks for, as in `fault=status,status=503,retry_after=5`.

    Raises ConfigurationError.
    """
    kind, *options = text.split(",")
    return parse_fault("fault", kind, dict(option.partition("=")[::2] for option in options))


def edit(document: Any, path: str, do: str, to: object) -> Any:
    """Change `document` in place as the fault `edit` says, and return it; a path to nowhere is ignored."""
    steps = [int(i) if i.isdigit() else i or name for i, name in _STEP.findall(path)]
    places = [document]
    for step in steps[:-1]:
        places = [inner for place in places for inner in _inner(place, step)]
    for place in places:
        if do == "set" and isinstance(place, dict):
            place.setdefault(steps[-1], None)
        for key in _keys(place, steps[-1]):
            if do == "drop":
                del place[key]
            elif do == "rename":
                place[to] = place.pop(key)
            else:
                place[key] = to if do == "set" else None
    return document


def shape(document: Any, sets: Any, share: int, *, whole: bool) -> Any:
    """Change `document` in place as the fault `shape` says, and return it."""
    featured = document.get("meta", {}).get("featured_listings", {}).get("data", [])
    rows = [document] if whole else [*document.get("data", []), *featured]
    for row in rows:
        if whole or share >= 100 or int(row["id"]) % 100 < share:
            for path, value in sets:
                dropped = isinstance(value, dict) and value.keys() == {"drop"}
                edit(row, path, "drop" if dropped else "set", value)
    return document


def _keys(place: Any, step: int | str) -> list[Any]:
    if isinstance(place, list):
        if step == "*":
            return list(reversed(range(len(place))))
        return [step] if isinstance(step, int) and step < len(place) else []
    return [step] if isinstance(place, dict) and step in place else []


def _inner(place: Any, step: int | str) -> list[Any]:
    return [place[key] for key in _keys(place, step)]


def _rule(where: str, document: object) -> Rule:
    if not isinstance(document, dict):
        raise ConfigurationError(f"{where}: not an object")
    options = dict(document)
    try:
        match = re.compile(options.pop("match", ""))
    except (re.error, TypeError) as error:
        raise ConfigurationError(f"{where}.match: not a regular expression: {error}") from error
    times = options.pop("times", None)
    per = options.pop("per", "rule")
    if per not in ("rule", "target"):
        raise ConfigurationError(f"{where}.per: neither 'rule' nor 'target': {per!r}")
    return Rule(
        match=match,
        times=None if times is None else _number(f"{where}.times", times, int),
        after=_number(f"{where}.after", options.pop("after", 0), int),
        per_target=per == "target",
        probability=_number(f"{where}.probability", options.pop("probability", 1.0), float),
        fault=parse_fault(where, options.pop("fault", None), options),
    )


def _option(where: str, name: tuple[str, str], value: object) -> object:
    default = FAULTS[name[0]][name[1]]
    if name in _CHOICES and value not in _CHOICES[name]:
        raise ConfigurationError(f"{where}: {value!r} is none of {', '.join(_CHOICES[name])}")
    if isinstance(default, bool):
        return value in (True, "true")
    if isinstance(default, int):
        return _number(where, value, int)
    if isinstance(default, float):
        return _number(where, value, float)
    if isinstance(default, str) and not isinstance(value, str):
        raise ConfigurationError(f"{where}: not text: {value!r}")
    return value


def _number(where: str, value: object, kind: type[N]) -> N:
    try:
        if isinstance(value, int | float | str) and (number := kind(value)) >= 0:
            return number
    except ValueError as error:
        raise ConfigurationError(f"{where}: not a number: {value!r}") from error
    raise ConfigurationError(f"{where}: not a number from 0 on: {value!r}")
