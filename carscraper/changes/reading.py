"""`changes.jsonl` as people and programs ask for it: since a run or a time, of a kind, of a make."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson

from carscraper.changes.lines import ERASED, RUN, head_of
from scrapy_durable.exceptions import ConfigurationError
from scrapy_durable.identity import is_crawl_id

WIDTH = 80
_NUMBER = "{:,}".format


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which lines are asked for; empty: all."""

    since: str = ""
    """Id of a run, whose own lines are not meant, or the earliest time, as `time_of` gives it."""
    kind: str = ""
    make: str = ""

    def takes(self, change: dict[str, Any]) -> bool:
        """Whether a line is of the kind and make."""
        if self.kind and change["kind"] != self.kind:
            return False
        return not self.make or str(change.get("car", {}).get("make", "")).casefold() == self.make.casefold()


def time_of(text: str) -> str:
    """A date, or a date and time, in UTC unless it says otherwise, as it stands in the lines. Raises
    `ConfigurationError`.
    """
    try:
        time = datetime.fromisoformat(text)
        time = time.astimezone(UTC) if time.tzinfo else time.replace(tzinfo=UTC)
    except (ValueError, OverflowError) as error:
        raise ConfigurationError(f"{text!r} is neither the id of a run nor a date: 2026-11-20") from error
    return time.strftime("%Y-%m-%dT%H:%M:%SZ")


def last_run(path: Path) -> dict[str, Any]:
    """The last line of a run: its crawl under `run`, its `listings`, how many were `removed`, `added` and so on; empty
    where there is none, or it is damaged. Raises `OSError`.
    """
    last = b"{}"
    with contextlib.suppress(FileNotFoundError), path.open("rb") as file:
        for line in file:
            if (head := head_of(line)) and head.kind == RUN:
                last = line
    try:
        run = orjson.loads(last)
    except orjson.JSONDecodeError:
        return {}
    return run if isinstance(run, dict) else {}


def read_changes(path: Path, wanted: Wanted, damaged: Callable[[int], None]) -> Iterator[tuple[int, bytes]]:
    """The lines that are wanted, with their numbers, in their order; `damaged` is told that of one that is none.

    Raises `ConfigurationError` when there is no file, or no run of that id in it; `OSError`.
    """
    try:
        file = path.open("rb")
    except FileNotFoundError as error:
        raise ConfigurationError(
            f"{path}: there is no such file; a complete crawl of the whole catalogue makes it"
        ) from error
    with file:
        earliest, skipped = "", 0
        if is_crawl_id(wanted.since):
            skipped = _skip_run(file, wanted.since, path)
        elif wanted.since:
            earliest = time_of(wanted.since)
        for number, line in enumerate(file, skipped + 1):
            head = head_of(line)
            if not line.endswith(b"\n"):
                return  # still being written
            if head is None:
                damaged(number)
                continue
            if head.at < earliest or (wanted.kind and head.kind != wanted.kind):
                continue
            try:
                if wanted.takes(orjson.loads(line)):
                    yield number, line
            except (orjson.JSONDecodeError, AttributeError):
                damaged(number)


def _skip_run(file: Any, run: str, path: Path) -> int:
    """Go to the line after that which ends the run; returns how many lines are before."""
    known: list[str] = []
    for number, line in enumerate(iter(file.readline, b""), 1):
        head = head_of(line)
        if head and head.kind == RUN:
            if head.run == run:
                return number
            known = [*known[-2:], head.run]
    raise ConfigurationError(f"{path} has no run {run}; the last are {', '.join(known) or 'none'}")


def table_line(change: dict[str, Any]) -> str:
    """One change in at most `WIDTH` columns."""
    car = change.get("car", {})
    name = " ".join(str(car[key]) for key in ("make", "model", "year") if key in car)
    start = (
        f"{change['at'][:16].replace('T', ' ')}  {change['kind']:8}  {change['listing']:8}  {name[:24]:24}"
    )
    return f"{start}  {_what(change)}"[:WIDTH].rstrip()


def _what(change: dict[str, Any]) -> str:
    kind, fields = change["kind"], change.get("fields", {})
    if kind == "price":
        values = fields["car_attrs.price"]
        return f"{_price(values.get('before'))} -> {_price(values.get('after'))}"
    if kind == "changed":
        return ", ".join(name.removeprefix("car_attrs.") for name in fields)
    return "" if kind == ERASED else _price(change["car"].get("price"))


def _price(value: Any) -> str:
    return _NUMBER(value) if isinstance(value, int | float) else "-" if value is None else str(value)
