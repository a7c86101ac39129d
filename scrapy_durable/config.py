"""The core's own settings, read and checked once, at start.

`settings.py` says what each one is for; here stands what is accepted.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from scrapy_durable import settings as defaults
from scrapy_durable.exceptions import ConfigurationError
from scrapy_durable.origins import checked_origin
from scrapy_durable.settings_check import check_settings
from scrapy_durable.values import Values

if TYPE_CHECKING:
    from scrapy.settings import BaseSettings


LARGEST = 64 * 1024 * 1024
"""Bytes of an answer that no setting may allow more than: it is parsed as a whole, into ten times as much memory."""


@dataclass(frozen=True, slots=True)
class Config:
    """The checked settings; durations in seconds."""

    allowed_origins: tuple[str, ...]
    lease_seconds: float
    max_attempts: int
    max_retry_after: float
    retry_base_delay: float
    retry_max_delay: float
    retry_partial: bool
    dead_letter_dropped: bool
    reported_stats: dict[str, str]
    queue_key: str = field(repr=False)
    proxies: tuple[str, ...] = field(repr=False)  # they may hold passwords
    proxy_cooldown: float
    responses_dir: Path | None
    responses_namespace: str
    responses_max_age: float
    responses_keep: float
    responses_max_bytes: int
    responses_max_shared: int
    responses_max_kept: int
    item_log_max_bytes: int
    console_level: str
    runs_file: Path | None
    dashboard_token: str = field(repr=False)
    monitors: tuple[str, ...]
    monitor_runs: int
    monitor_bounds: dict[str, float]
    """Those that are not switched off."""
    notify: tuple[str, ...] = field(repr=False)  # they hold tokens
    notify_timeout: float
    metrics_port: int | None
    metrics_host: str

    @classmethod
    def from_settings(cls, settings: BaseSettings) -> Config:
        """Read all of them; raises `ConfigurationError` for the first that is not acceptable, or that nobody
        reads."""
        check_settings(settings)
        values = Values(settings, vars(defaults))
        return cls(
            allowed_origins=_origins(values, "DURABLE_ALLOWED_ORIGINS"),
            lease_seconds=values.fraction("DURABLE_LEASE_SECONDS", 0.5, 86_400),
            max_attempts=values.whole("DURABLE_MAX_ATTEMPTS", 1, 1000),
            max_retry_after=values.fraction("DURABLE_MAX_RETRY_AFTER", 0, 31_536_000),
            retry_base_delay=values.fraction("DURABLE_RETRY_BASE_DELAY", 0.001, 3600),
            retry_max_delay=values.fraction("DURABLE_RETRY_MAX_DELAY", 0.001, 86_400),
            retry_partial=values.switch("DURABLE_RETRY_PARTIAL"),
            dead_letter_dropped=values.switch("DURABLE_DEAD_LETTER_DROPPED"),
            reported_stats=values.mapping("DURABLE_REPORTED_STATS"),
            queue_key=values.secret("DURABLE_QUEUE_KEY"),
            proxies=values.several("DURABLE_PROXIES"),
            proxy_cooldown=values.fraction("DURABLE_PROXY_COOLDOWN", 0.1, 600),
            responses_dir=_directory(values, "DURABLE_RESPONSES_DIR"),
            responses_namespace=values.text("DURABLE_RESPONSES_NAMESPACE"),
            responses_max_age=values.fraction("DURABLE_RESPONSES_MAX_AGE", 0),
            responses_keep=values.fraction("DURABLE_RESPONSES_KEEP", 0),
            responses_max_bytes=values.whole("DURABLE_RESPONSES_MAX_BYTES", 0, 2**50),
            responses_max_shared=values.whole("DURABLE_RESPONSES_MAX_SHARED", 1024, LARGEST),
            responses_max_kept=values.whole("DURABLE_RESPONSES_MAX_KEPT", 1024, LARGEST),
            item_log_max_bytes=values.whole("DURABLE_ITEM_LOG_MAX_BYTES", 1024**2, 2**50),
            console_level=_level(values, "DURABLE_CONSOLE_LEVEL"),
            runs_file=_directory(values, "DURABLE_RUNS_FILE"),
            dashboard_token=values.text("DURABLE_DASHBOARD_TOKEN"),
            monitors=values.several("DURABLE_MONITORS"),
            monitor_runs=values.whole("DURABLE_MONITOR_RUNS", 0, 1000),
            monitor_bounds=values.bounds("DURABLE_MONITOR_BOUNDS", defaults.DURABLE_MONITOR_BOUNDS),
            notify=values.words("DURABLE_NOTIFY"),
            notify_timeout=values.fraction("DURABLE_NOTIFY_TIMEOUT", 1, 600),
            metrics_port=_port(values, "DURABLE_METRICS_PORT"),
            metrics_host=values.text("DURABLE_METRICS_HOST") or defaults.DURABLE_METRICS_HOST,
        )

    @property
    def responses_keep_shared(self) -> float:
        """Seconds that a shared answer is stored: a crawl may use one that is almost `responses_max_age` old, and what
        is kept for that crawl needs it for `responses_keep` from then on.
        """
        return self.responses_max_age + self.responses_keep


def _directory(values: Values, name: str) -> Path | None:
    """None for an empty one."""
    text = values.text(name)
    if "\0" in text:
        raise ConfigurationError(f"{name}: a path is needed, not {text!r}")
    return Path(text).absolute() if text else None


def _port(values: Values, name: str) -> int | None:
    """None for an empty one."""
    return values.whole(name, 0, 65_535) if values.text(name) or values[name] == 0 else None


def _level(values: Values, name: str) -> str:
    """A level of logging by its name or number; empty for none."""
    level = values.text(name)
    if level and not level.isdecimal() and level not in logging.getLevelNamesMapping():
        raise ConfigurationError(f"{name}: a level such as INFO or WARNING is needed, not {level!r}")
    return level


def _origins(values: Values, name: str) -> tuple[str, ...]:
    """Each once."""
    return tuple(dict.fromkeys(checked_origin(name, text) for text in values.several(name)))
