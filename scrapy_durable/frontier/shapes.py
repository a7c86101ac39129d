"""What a spider queues, declared by it: what comes from a queue and is anything else is refused.

A queue is read like any input, since whoever may write to its server can put a request into it. A spider that has an
attribute `queued`, a mapping of the names of its callbacks to a `Shape` each, is released nothing but plain `GET`
requests of these shapes. One that has none is released what any of its requests could be.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

Check = Callable[[Any], bool]
"""Whether a value, as JSON has it, is one that the spider itself could have queued."""

FIELDS = frozenset({"v", "url", "callback", "cb_kwargs", "meta", "priority"})
"""Of a document (see `codec`); the others say how else than by a plain `GET` the site is to be asked."""


@dataclass(frozen=True, slots=True)
class Shape:
    """The requests of one callback."""

    arguments: Mapping[str, Check] = field(default_factory=dict)
    """`cb_kwargs`: all of these, and no others."""
    meta: Mapping[str, Check] = field(default_factory=dict)
    """All of these, and no others."""
    problem: Callable[[str, Mapping[str, Any], Mapping[str, Any]], str | None] = lambda *_: None
    """What is wrong with URL, `cb_kwargs` and `meta` together, each being right by itself; None when nothing is."""


def departure(document: Mapping[str, Any], shapes: Mapping[str, Shape]) -> str | None:
    """What departs from every shape, by its path; None when the document has the shape of its callback.

    The document has the fields of `codec`, each of its type.
    """
    if not document.keys() <= FIELDS:
        return f"{next(name for name in document if name not in FIELDS)}: this spider queues none"
    shape = shapes.get(document.get("callback", ""))
    if shape is None:
        return f"callback: this spider queues none of the name {document.get('callback')!r}"
    arguments, meta = document.get("cb_kwargs", {}), document.get("meta", {})
    return (
        _departure("cb_kwargs", arguments, shape.arguments)
        or _departure("meta", meta, shape.meta)
        or shape.problem(document["url"], arguments, meta)
    )


def _departure(path: str, values: Mapping[str, Any], checks: Mapping[str, Check]) -> str | None:
    if values.keys() != checks.keys():
        for name in checks.keys() - values.keys():
            return f"{path}.{name}: missing"
        return f"{path}.{next(name for name in values if name not in checks)}: this spider queues none"
    for name, value in values.items():
        if not checks[name](value):
            return f"{path}.{name}: not what this spider queues"
    return None


def exactly(expected: Any) -> Check:
    """The value itself, and of its type: 1 is not True."""
    return lambda value: type(value) is type(expected) and value == expected


def whole(low: int, high: int) -> Check:
    """An integer within bounds, both included."""
    return lambda value: type(value) is int and low <= value <= high


def either(*checks: Check) -> Check:
    """What one of them accepts."""
    return lambda value: any(check(value) for check in checks)


def text(longest: int) -> Check:
    """A string of so many characters at most."""
    return lambda value: type(value) is str and len(value) <= longest
