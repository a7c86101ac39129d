"""The names of item logs, as the frontier takes them and gives them back."""

from __future__ import annotations

import re

from scrapy_durable.exceptions import FrontierError

MOST_LOGS = 1000
"""Of one crawl."""
_NAME = re.compile(r"[A-Za-z0-9._-]{1,64}")


def is_log_name(name: str) -> bool:
    """1 to 64 letters, digits, dots, hyphens and underscores, all of them ASCII."""
    return _NAME.fullmatch(name) is not None


def checked_log_name(name: str) -> str:
    """The name. Raises ValueError for one that is not."""
    if not is_log_name(name):
        raise ValueError(f"not the name of an item log: {name!r:.120}")
    return name


def too_many_logs(name: str, place: str) -> FrontierError:
    """The error that another log cannot join."""
    return FrontierError(
        f"the item log {name} cannot join: {place} has {MOST_LOGS} item logs of this crawl already"
    )
