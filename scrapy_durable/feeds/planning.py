"""The feeds of the settings, planned: how each is made, and how far it is."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from scrapy.extensions.feedexport import FileFeedStorage

from scrapy_durable.exceptions import ConfigurationError, cause
from scrapy_durable.feeds.kinds import Kind, check_addresses, check_worker, kind_of, storage_of
from scrapy_durable.feeds.notes import UNKNOWN, Note, Notes, known_as, with_user_of
from scrapy_durable.feeds.plan import Plan, local_path
from scrapy_durable.feeds.reading import BEGINNING
from scrapy_durable.frontier.build import is_shared

if TYPE_CHECKING:
    from scrapy_durable.engine.feeds import FeedParts


def plan_feeds(parts: FeedParts, notes: Notes) -> list[tuple[Kind, Plan]]:
    """How each feed is made, but for those that are left to Scrapy. Raises `ConfigurationError`."""
    found = [_planned(parts, notes, template, options) for template, options in parts.feeds.items()]
    plans = [planned for planned in found if planned is not None]
    check_addresses(plan for _, plan in plans)
    return plans


def _planned(
    parts: FeedParts, notes: Notes, template: str, options: dict[str, Any]
) -> tuple[Kind, Plan] | None:
    plan = Plan(
        parts=parts,
        template=template,
        options=options,
        note=Note("", options["format"], overwrite=bool(options.get("overwrite")), batch_time=time.time()),
        uri="",
        is_new=True,
        save=notes.save,
        log_is_whole=lambda: notes.released == BEGINNING,
        begun_at=notes.begun_at,
    )
    try:
        plan.rename()
    except Exception as error:  # whatever the project's own function raises
        raise ConfigurationError(f"FEEDS: {known_as(template)}: {cause(error)}") from error
    kind = kind_of(parts, plan.uri, options)
    if kind is Kind.SCRAPYS:
        return None
    is_local = storage_of(parts, plan.uri) is FileFeedStorage
    plan.note.kind = kind
    plan.note.path = local_path(plan.uri) if is_local else ""
    if is_shared(parts.settings) and (kind is Kind.BATCHES or not is_local):
        check_worker(plan)
    _recall(plan, notes)
    return kind, plan


def _recall(plan: Plan, notes: Notes) -> None:
    """Go on with what is noted of the feed. Raises `ConfigurationError` when it cannot have all items any more."""
    found, new = notes.feeds.get(known_as(plan.template)), plan.note
    if found is not None and _is_alike(found, new):
        uri = with_user_of(found.uri, plan.uri)
        is_there = found.base == UNKNOWN or (local_path(uri) if new.path else "") == found.path
        if is_there and (found.stored or found.position >= notes.released):
            plan.note, plan.uri, plan.is_new = found, uri, False
            return
    if notes.released != BEGINNING:
        raise ConfigurationError(
            f"FEEDS: {known_as(plan.template)} is new to this crawl, and the first items are not in the item log any "
            "more: finish the crawl with the feeds that it began with, or 'scrapy queue forget' it"
        )


def _is_alike(found: Note, new: Note) -> bool:
    return (found.kind, found.format, found.overwrite) == (new.kind, new.format, new.overwrite)
