"""The layout of the collections, step by step."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from pymongo import errors
from pymongo.asynchronous.database import AsyncDatabase

from carscraper.stores.mongo.faults import NAMESPACE_EXISTS


async def make_view(database: AsyncDatabase[Any]) -> None:
    """The view of all prices; made again when somebody has dropped it."""
    if "price_history" in await database.list_collection_names(authorizedCollections=True):
        return
    row = {"_id": 0, "listing_id": "$_id", "seen_at": "$prices.seen_at", "price_zar": "$prices.price_zar"}
    rows = [{"$unwind": "$prices"}, {"$project": row}]
    try:
        await database.create_collection("price_history", check_exists=False, viewOn="cars", pipeline=rows)
    except errors.OperationFailure as error:
        if error.code != NAMESPACE_EXISTS:  # another worker was faster
            raise


STEPS: tuple[Callable[[AsyncDatabase[Any]], Awaitable[None]], ...] = (make_view,)
"""What leads from each version to the next; the version is how many there are. Each may be done twice, by two workers
at once, or again after a crash.
"""
