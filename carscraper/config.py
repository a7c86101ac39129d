"""This project's own settings, read and checked once, at start.

`settings.py` says what each one is for; here stands what is accepted. A value that is not is refused by name
with a `ConfigurationError`, before anything is asked of the site.
"""

from __future__ import annotations

import math
import os
import re
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING

import scrapy

from carscraper import settings as declared
from carscraper.api.endpoints import check_base_url
from scrapy_durable.config import LARGEST
from scrapy_durable.exceptions import ConfigurationError
from scrapy_durable.settings_check import check_settings
from scrapy_durable.values import Values

if TYPE_CHECKING:
    from scrapy.settings import BaseSettings

OLDEST_SCRAPY = (2, 19)
"""Its download handler on aiohttp is there since then. The core needs less."""
_NAMES = frozenset(name for name in vars(declared) if name.startswith("CARS_"))

NEEDED = ("code", "year")
"""Attributes of a listing that lead to its specification."""
_CONTACT = re.compile(r"(?=.{1,200}$)(https?://[!-'*-~]+|[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]+@[A-Za-z0-9.-]+)")
"""Nothing in it may end the comment of `USER_AGENT` that it stands in, or the header."""


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
    max_passes: int
    max_listings: int
    max_drift: float
    min_kept_share: float
    min_fill_share: float
    max_removed_share: float
    schema_contract: str
    """`evolve` or `freeze`."""
    backlog_max_bytes: int
    store_timeout: float
    share_with_group: bool
    leave_out: tuple[str, ...]
    delete_removed_after: float
    contact: str

    @classmethod
    def from_settings(cls, settings: BaseSettings) -> Config:
        """Read all of them; raises `ConfigurationError` for the first that is not acceptable, or that nobody reads."""
        if scrapy.version_info < OLDEST_SCRAPY:
            oldest = ".".join(map(str, OLDEST_SCRAPY))
            raise ConfigurationError(
                f"Scrapy {scrapy.__version__} is installed; this crawl needs {oldest} or newer"
            )
        check_settings(settings, {"CARS_": _NAMES})
        values = Values(settings, {})
        output_dir = values.text("CARS_OUTPUT_DIR")
        if not output_dir or "\0" in output_dir:
            raise ConfigurationError(f"CARS_OUTPUT_DIR: a directory is needed, not {output_dir!r}")
        return cls(
            api_url=check_base_url(str(values["CARS_API_URL"] or "")),
            output_dir=Path(output_dir).absolute(),
            page_size=values.whole("CARS_PAGE_SIZE", 1, 1000),
            spec_ttl=values.fraction("CARS_SPEC_TTL", 0),
            keep_pages=values.fraction("CARS_KEEP_PAGES", 0),
            responses_max_bytes=values.whole("CARS_RESPONSES_MAX_BYTES", 0, 2**50),
            max_page_bytes=values.whole("CARS_MAX_PAGE_BYTES", 1024, LARGEST),
            max_spec_bytes=values.whole("CARS_MAX_SPEC_BYTES", 1024, LARGEST),
            batch_size=values.whole("CARS_BATCH_SIZE", 1, 100_000),
            batch_seconds=values.fraction("CARS_BATCH_SECONDS", 0.01, 1.0),
            max_passes=values.whole("CARS_MAX_PASSES", 1, 100),
            max_listings=values.whole("CARS_MAX_LISTINGS", 1, 999_999_999),
            max_drift=values.fraction("CARS_MAX_DRIFT", 0.0, 1.0),
            min_kept_share=values.fraction("CARS_MIN_KEPT_SHARE", 0.0, 1.0),
            min_fill_share=values.fraction("CARS_MIN_FILL_SHARE", 0.0, 1.0),
            max_removed_share=values.fraction("CARS_MAX_REMOVED_SHARE", 0.0, 1.0),
            schema_contract=values.one_of("CARS_SCHEMA_CONTRACT", "evolve", "freeze"),
            backlog_max_bytes=values.whole("CARS_BACKLOG_MAX_BYTES", 0, 2**50),
            store_timeout=values.fraction("CARS_STORE_TIMEOUT", 0, 86_400),
            share_with_group=values.switch("CARS_SHARE_WITH_GROUP"),
            leave_out=_attributes(values.several("CARS_LEAVE_OUT")),
            delete_removed_after=values.fraction("CARS_DELETE_REMOVED_AFTER", 0)
            if values["CARS_DELETE_REMOVED_AFTER"] not in (None, "")
            else math.inf,
            contact=_contact(values.text("CARS_CONTACT")),
        )

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


def _attributes(patterns: tuple[str, ...]) -> tuple[str, ...]:
    """Names of attributes, none of which the crawl itself needs."""
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
