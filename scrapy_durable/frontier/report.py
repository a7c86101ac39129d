"""A worker's own numbers, as they stand in the frontier."""

from __future__ import annotations

from collections.abc import Mapping

import orjson

MOST_NAMES = 64
LONGEST_NAME = 100
"""Characters, all of them ASCII."""
LEAST, MOST = -(2**63), 2**63 - 1


def pack_report(report: Mapping[str, int]) -> bytes:
    """The numbers as JSON; empty when there are none.

    Raises ValueError for more than `MOST_NAMES` names, a name that is longer than `LONGEST_NAME` or not ASCII, or
    a number that does not fit into 64 bits with a sign.
    """
    if not report:
        return b""
    if len(report) > MOST_NAMES:
        raise ValueError(f"a report has at most {MOST_NAMES} names, not {len(report)}")
    for name, number in report.items():
        if not _fits(name, number):
            raise ValueError(f"not a name and a number for a report: {name!r:.120}: {number!r:.40}")
    return orjson.dumps(dict(report))


def read_report(packed: bytes) -> dict[str, int]:
    """What `pack_report` has packed. What is not of that kind is left out: it comes from a neighbour."""
    try:
        report = orjson.loads(packed) if packed else {}
    except ValueError:
        return {}
    if not isinstance(report, dict):
        return {}
    return {name: number for name, number in report.items() if _fits(name, number)}


def _fits(name: object, number: object) -> bool:
    return (
        isinstance(name, str)
        and name.isascii()
        and len(name) <= LONGEST_NAME
        and type(number) is int
        and LEAST <= number <= MOST
    )
