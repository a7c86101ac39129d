"""The item log: the items of one worker on its disk, each under the lease that made it; see `log`."""

from scrapy_durable.item_log.codec import HasParts, ItemCodec
from scrapy_durable.item_log.directory import segments_in
from scrapy_durable.item_log.flushed import (
    change_items,
    flushed_items,
    item_end,
    segments_from,
    whole_log,
)
from scrapy_durable.item_log.log import ItemLog
from scrapy_durable.item_log.reading import BEGINNING, Accepted, Position

__all__ = [
    "BEGINNING",
    "Accepted",
    "HasParts",
    "ItemCodec",
    "ItemLog",
    "Position",
    "change_items",
    "flushed_items",
    "item_end",
    "segments_from",
    "segments_in",
    "whole_log",
]
