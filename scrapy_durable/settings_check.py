"""Every setting by its name and type: one that nobody reads, or that Scrapy could not read, is refused at start.

What `config.py` does for the values of the core's own settings, this does for their names, and for those of the site
that is built on it; and for the types of Scrapy's and scrapy-redis' settings, which those would only find out in the
middle of a start.
"""

from __future__ import annotations

import logging
import math
import os
from collections.abc import Collection, Iterator, Mapping
from difflib import get_close_matches
from typing import TYPE_CHECKING

from scrapy.settings import default_settings

from scrapy_durable import settings as defaults
from scrapy_durable.exceptions import ConfigurationError

if TYPE_CHECKING:
    from scrapy.settings import BaseSettings

_OURS = {"DURABLE_": frozenset(name for name in vars(defaults) if name.isupper())}
_FRACTIONS = {
    "AUTOTHROTTLE_MAX_DELAY",
    "AUTOTHROTTLE_START_DELAY",
    "AUTOTHROTTLE_TARGET_CONCURRENCY",
    "CLOSESPIDER_TIMEOUT",
    "DNS_TIMEOUT",
    "DOWNLOAD_DELAY",
    "DOWNLOAD_DELAY_JITTER",
    "DOWNLOAD_TIMEOUT",
    "LOGSTATS_INTERVAL",
    "SCHEDULER_IDLE_BEFORE_CLOSE",
}
"""Numbers that need not be whole, though the default of some of them is."""
_NEGATIVE = {"DEPTH_PRIORITY", "REDIRECT_PRIORITY_ADJUST", "RETRY_PRIORITY_ADJUST"}
"""Numbers that may be below 0."""
_WITHOUT_DEFAULT: dict[str, type] = {
    "CONCURRENT_REQUESTS_PER_IP": int,
    "SCHEDULER_PERSIST": bool,
    "SCHEDULER_FLUSH_ON_START": bool,
    "SCHEDULER_IDLE_BEFORE_CLOSE": float,
    "REDIS_START_URLS_AS_SET": bool,
    "REDIS_START_URLS_AS_ZSET": bool,
    "REDIS_PARAMS": dict,
}
"""Types of what Scrapy's own defaults do not name: mostly scrapy-redis' settings."""


def check_settings(
    settings: BaseSettings,
    site: Mapping[str, Collection[str]] | None = None,
    environment: Mapping[str, str] = os.environ,
) -> None:
    """Raises `ConfigurationError` for the first setting that nobody reads, or that is of another type.

    `site` are the names of the site's own settings, by the prefix that all of them have.
    """
    names = {**_OURS, **(site or {})}
    known = {name for some in names.values() for name in some}
    for name in sorted({*settings, *environment}):
        if name.startswith(tuple(names)) and name not in known:
            raise ConfigurationError(f"{name}: there is no such setting{_near(name, known)}")
    for name, kind in _kinds():
        value = settings.get(name)
        if value is not None and (problem := _problem(name, kind, value, settings)):
            raise ConfigurationError(f"{name}: {problem}")


def _near(name: str, known: Collection[str]) -> str:
    """The one that may have been meant, perhaps under another prefix."""
    by_rest = {one.partition("_")[2]: one for one in known}
    found = get_close_matches(name.partition("_")[2], by_rest, 1, 0.8)
    return "".join(f"; did you mean {by_rest[near]}?" for near in found)


def _kinds() -> Iterator[tuple[str, type]]:
    """The settings whose type can be told, with it."""
    yield from _WITHOUT_DEFAULT.items()
    yield "LOG_LEVEL", logging.Logger
    for name, default in vars(default_settings).items():
        if name.isupper() and isinstance(default, bool | int | float):
            usual = float if name in _FRACTIONS else type(default)
            yield name, bool if name.endswith("_ENABLED") else usual  # one of them is 1 by default


def _problem(name: str, kind: type, value: object, settings: BaseSettings) -> str | None:
    """What is needed instead of the value, as whoever reads it would say; None when it can be read."""
    if kind is logging.Logger:
        is_level = str(value).isdecimal() or str(value) in logging.getLevelNamesMapping()
        return None if is_level else f"a level such as INFO or WARNING is needed, not {value!r}"
    try:
        if kind is bool:
            settings.getbool(name)
        elif kind is dict:
            settings.getdict(name)
        else:
            number = settings.getint(name) if kind is int else settings.getfloat(name)
            if not math.isfinite(number) or (number < 0 and name not in _NEGATIVE):
                return f"must be at least 0, not {value!r}"
    except (ValueError, TypeError, OverflowError):
        if kind is dict:  # which may hold a password
            return "an object in JSON is needed"
        needed = {bool: "True or False", int: "a whole number"}.get(kind, "a number")
        return f"{needed} is needed, not {value!r}"
    return None
