"""This project's own settings, read and checked once, at start.

`settings.py` says what each one is for; here stands what is accepted. A value that is not is refused by name
with a `ConfigurationError`, before anything is asked of the site.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from carscraper.api.endpoints import check_base_url
from carscraper.exceptions import ConfigurationError
from carscraper.settings_check import check_settings

if TYPE_CHECKING:
    from scrapy.settings import BaseSettings

_SHORTEST_KEY = 32
_Number = TypeVar("_Number", int, float)

NEEDED = ("code", "year")
"""Attributes of a listing that lead to its specification."""
_CONTACT = re.compile(r"(?=.{1,200}$)(https?://[!-'*-~]+|[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]+@[A-Za-z0-9.-]+)")
"""Nothing in it may end the comment of `USER_AGENT` that it stands in, or the header."""

LARGEST = 64 * 1024 * 1024
"""Bytes of an answer that no setting may allow more than: it is parsed as a whole, into ten times as much memory."""


@dataclass(frozen=True, slots=True)
class Config:
    """The checked settings; durations in seconds, sizes in records unless their name says otherwise."""

    api_url: str
    output_dir: Path
    page_size: int
    spec_ttl: float
    keep_pages: float
    responses_max_bytes: int
    max_page_bytes: int
    max_spec_bytes: int
    batch_size: int
    batch_seconds: float
    max_sweeps: int
    max_listings: int
    lease_seconds: float
    max_attempts: int
    max_retry_after: float
    retry_base_delay: float
    retry_max_delay: float
    max_drift: float
    min_kept_share: float
    schema_contract: str
    """`evolve` or `freeze`."""
    proxies: tuple[str, ...] = field(repr=False)  # they may hold passwords
    queue_key: str = field(repr=False)
    proxy_cooldown: float
    spool_max_bytes: int
    store_patience: float
    share_with_group: bool
    leave_out: tuple[str, ...]
    delete_removed_after: float
    contact: str

    @classmethod
    def from_settings(cls, settings: BaseSettings) -> Config:
        """Read all of them; raises `ConfigurationError` for the first that is not acceptable, or that nobody reads."""
        check_settings(settings)

        def whole(name: str, low: int, high: int) -> int:
            return _number(settings.get(name), name, int, low, high)

        def seconds(name: str, low: float, high: float = math.inf) -> float:
            return _number(settings.get(name), name, float, low, high)

        output_dir = str(settings.get("CARS_OUTPUT_DIR") or "").strip()
        if not output_dir or "\0" in output_dir:
            raise ConfigurationError(f"CARS_OUTPUT_DIR: a directory is needed, not {output_dir!r}")
        return cls(
            api_url=check_base_url(str(settings.get("CARS_API_URL") or "")),
            output_dir=Path(output_dir).absolute(),
            page_size=whole("CARS_PAGE_SIZE", 1, 1000),
            spec_ttl=seconds("CARS_SPEC_TTL", 0),
            keep_pages=seconds("CARS_KEEP_PAGES", 0),
            responses_max_bytes=whole("CARS_RESPONSES_MAX_BYTES", 0, 2**50),
            max_page_bytes=whole("CARS_MAX_PAGE_BYTES", 1024, LARGEST),
            max_spec_bytes=whole("CARS_MAX_SPEC_BYTES", 1024, LARGEST),
            batch_size=whole("CARS_BATCH_SIZE", 1, 100_000),
            batch_seconds=seconds("CARS_BATCH_SECONDS", 0.01, 1.0),
            max_sweeps=whole("CARS_MAX_SWEEPS", 1, 100),
            max_listings=whole("CARS_MAX_LISTINGS", 1, 999_999_999),
            lease_seconds=seconds("CARS_LEASE_SECONDS", 0.5, 86_400),
            max_attempts=whole("CARS_MAX_ATTEMPTS", 1, 1000),
            max_retry_after=seconds("CARS_MAX_RETRY_AFTER", 0, 31_536_000),
            retry_base_delay=seconds("CARS_RETRY_BASE_DELAY", 0.001, 3600),
            retry_max_delay=seconds("CARS_RETRY_MAX_DELAY", 0.001, 86_400),
            max_drift=_number(settings.get("CARS_MAX_DRIFT"), "CARS_MAX_DRIFT", float, 0.0, 1.0),
            min_kept_share=_number(
                settings.get("CARS_MIN_KEPT_SHARE"), "CARS_MIN_KEPT_SHARE", float, 0.0, 1.0
            ),
            schema_contract=_one_of(
                settings.get("CARS_SCHEMA_CONTRACT"), "CARS_SCHEMA_CONTRACT", "evolve", "freeze"
            ),
            proxies=_several(settings.get("CARS_PROXIES")),
            queue_key=_secret(settings.get("CARS_QUEUE_KEY"), "CARS_QUEUE_KEY"),
            proxy_cooldown=seconds("CARS_PROXY_COOLDOWN", 0.1, 600),
            spool_max_bytes=whole("CARS_SPOOL_MAX_BYTES", 0, 2**50),
            store_patience=seconds("CARS_STORE_PATIENCE", 0, 86_400),
            share_with_group=_switch(settings, "CARS_SHARE_WITH_GROUP"),
            leave_out=_attributes(settings.get("CARS_LEAVE_OUT")),
            delete_removed_after=seconds("CARS_DELETE_REMOVED_AFTER", 0)
            if settings.get("CARS_DELETE_REMOVED_AFTER") not in (None, "")
            else math.inf,
            contact=_contact(str(settings.get("CARS_CONTACT") or "").strip()),
        )

    @property
    def keep_specs(self) -> float:
        """Seconds that a spec is stored: a crawl may use it when it is almost `spec_ttl` old, and that crawl's pages
        are kept, and need it, for `keep_pages` from then on.
        """
        return self.spec_ttl + self.keep_pages

    def keep_private(self) -> None:
        """From now on, what this process writes is its user's alone (0700, 0600), or its group's too (0770, 0660)."""
        os.umask(0o007 if self.share_with_group else 0o077)

    def make_output_dir(self, below: Path | None = None) -> None:
        """Create the output directory, or one `below` it; raises `ConfigurationError` when it cannot be written."""
        directory = below or self.output_dir
        probe = directory / ".writable"
        try:
            directory.mkdir(parents=True, exist_ok=True)
            probe.touch()
            probe.unlink(missing_ok=True)  # another worker may have been at the same
        except OSError as error:
            raise ConfigurationError(
                f"CARS_OUTPUT_DIR: {directory} cannot be written: {error.strerror or error}"
            ) from error


def _switch(settings: BaseSettings, name: str) -> bool:
    try:
        return settings.getbool(name)
    except ValueError:
        raise ConfigurationError(f"{name}: True or False is needed, not {settings.get(name)!r}") from None


def _attributes(value: object) -> tuple[str, ...]:
    """Names of attributes, none of which the crawl itself needs."""
    patterns = _several(value)
    for pattern in patterns:
        for name in NEEDED:
            if fnmatchcase(name, pattern):
                raise ConfigurationError(
                    f"CARS_LEAVE_OUT: {pattern!r} matches {name!r}, which the crawl needs"
                )
    return patterns


def _contact(text: str) -> str:
    if text and not _CONTACT.fullmatch(text):
        raise ConfigurationError(
            f"CARS_CONTACT: a mail address or an http(s) URL of at most 200 characters is needed, not {text!r}"
        )
    return text


def _secret(value: object, name: str) -> str:
    """A key, or "" for none; the message does not repeat it."""
    secret = str(value or "")
    if secret and len(secret) < _SHORTEST_KEY:
        raise ConfigurationError(
            f"{name}: a key has {_SHORTEST_KEY} characters or more; `openssl rand -hex 32` makes one"
        )
    return secret


def _one_of(value: object, name: str, *known: str) -> str:
    if value not in known:
        raise ConfigurationError(f"{name}: must be {' or '.join(known)}, not {value!r}")
    return str(value)


def _several(value: object) -> tuple[str, ...]:
    """A list, or a string whose values are parted by commas or white space."""
    if isinstance(value, list | tuple):
        return tuple(str(item) for item in value)
    return tuple(str(value or "").replace(",", " ").split())


def _number(value: object, name: str, kind: Callable[[str], _Number], low: _Number, high: _Number) -> _Number:
    """The setting as a number within bounds, both included."""
    try:
        number = kind(str(value))
    except ValueError:
        raise ConfigurationError(f"{name}: a number is needed, not {value!r}") from None
    if not low <= number <= high:
        bounds = f"at least {low}" if high == math.inf else f"from {low} to {high}"
        raise ConfigurationError(f"{name}: must be {bounds}, not {value!r}")
    return number
