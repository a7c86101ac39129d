"""How each feed of the settings is made, and which are refused: told before the crawl begins."""

from __future__ import annotations

import os
from collections.abc import Iterable
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlparse

from scrapy.extensions.feedexport import FileFeedStorage, FTPFeedStorage, StdoutFeedStorage

from scrapy_durable.engine.feeds import FeedParts, writes_lines
from scrapy_durable.exceptions import ConfigurationError
from scrapy_durable.feeds.files import incomplete
from scrapy_durable.feeds.notes import known_as
from scrapy_durable.feeds.plan import Plan, local_path

if TYPE_CHECKING:
    from collections.abc import Mapping


class Kind(StrEnum):
    """How a feed is made."""

    GROWING = "growing"
    AT_THE_END = "at the end"
    BATCHES = "batches"
    SCRAPYS = "Scrapy's"


def kind_of(parts: FeedParts, uri: str, options: Mapping[str, Any]) -> Kind:
    """How the feed of that address is made."""
    storage = storage_of(parts, uri)
    is_appended_over_ftp = _is_a(storage, FTPFeedStorage) and not options.get("overwrite", True)
    if is_appended_over_ftp or _is_a(storage, StdoutFeedStorage):
        return Kind.SCRAPYS
    if storage is FileFeedStorage and _is_no_regular_file(Path(local_path(uri))):
        return Kind.SCRAPYS
    if options["batch_item_count"]:
        return Kind.BATCHES
    if storage is FileFeedStorage and has_whole_lines(parts, options):
        return Kind.GROWING
    return Kind.AT_THE_END


def storage_of(parts: FeedParts, uri: str) -> Any:
    """What stores a feed of that address: a class, or whatever the project has named in its place."""
    return parts.storages.get(urlparse(uri).scheme, parts.storages["file"])


def has_whole_lines(parts: FeedParts, options: Mapping[str, Any]) -> bool:
    """Whether the file is whole after each item."""
    return "postprocessing" not in options and writes_lines(parts.exporters[options["format"]])


def check_addresses(plans: Iterable[Plan]) -> None:
    """Raise `ConfigurationError` for two feeds that would be written to the same place."""
    seen: dict[str, str] = {}
    for plan in plans:
        path = plan.path
        places = {known_as(plan.uri)} if path is None else {str(path), str(incomplete(path))}
        for place in places:
            if place in seen:
                raise ConfigurationError(
                    f"FEEDS: {known_as(seen[place])} and {known_as(plan.template)} are the same, {place}: each feed "
                    "needs an address of its own"
                )
        seen.update(dict.fromkeys(places, plan.template))


def check_worker(plan: Plan) -> None:
    """Raise `ConfigurationError` when all workers would store to one address, where only the last one's would stay."""
    try:
        is_same = plan.address(worker="another") == plan.address()
    except (KeyError, ValueError, TypeError):
        is_same = False
    if is_same:
        raise ConfigurationError(
            f"FEEDS: {known_as(plan.template)}: with REDIS_URL each worker stores a feed of its own; put %(worker)s "
            "into the address"
        )


def _is_no_regular_file(path: Path) -> bool:
    """A pipe, a terminal, `/dev/null`. Raises `ConfigurationError` for a directory."""
    if path.is_dir():
        raise ConfigurationError(f"FEEDS: {path} is a directory")
    return os.path.lexists(path) and not path.is_file()


def _is_a(kind: Any, base: type) -> bool:
    return isinstance(kind, type) and issubclass(kind, base)
