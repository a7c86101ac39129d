"""Which crawl this process is part of, and under which name it works."""

from __future__ import annotations

import os
import re
import secrets
import socket
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from scrapy.crawler import Crawler


@dataclass(frozen=True, slots=True)
class CrawlIdentity:
    """The crawl and the worker, as they appear in names of files and in the frontier."""

    crawl_id: str
    worker: str
    resumable: bool
    """True when the crawl outlives this process: its frontier is in a file or in Redis."""


def new_crawl_id() -> str:
    """A fresh identifier that sorts by time: `20261120T101500Z-3f9a1c`."""
    return f"{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}-{secrets.token_hex(3)}"


def begin_time(crawl_id: str) -> str:
    """When the crawl began, by the clock of the worker that began it: `2026-11-20T10:15:00Z`."""
    began = time.strptime(crawl_id.partition("-")[0], "%Y%m%dT%H%M%SZ")
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", began)


def new_worker_name() -> str:
    """A name that no other process has: host, process id, and six random hex digits."""
    host = re.sub(r"[^A-Za-z0-9]+", "-", socket.gethostname())[:32] or "host"
    return f"{host}-{os.getpid()}-{secrets.token_hex(3)}"


def crawl_identity(crawler: Crawler) -> CrawlIdentity:
    """The identity that the scheduler has joined; one of its own under a scheduler that knows of none.

    Callable once the scheduler is open, so from `open_spider` of a pipeline on.
    """
    identity = getattr(crawler.engine.scheduler, "identity", None)
    if isinstance(identity, CrawlIdentity):
        return identity
    return CrawlIdentity(new_crawl_id(), new_worker_name(), resumable=False)
