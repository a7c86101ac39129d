"""The item log: the items of one worker on its disk, each under the lease that made it; see `log`."""

from scrapy_durable.item_log.codec import ItemCodec
from scrapy_durable.item_log.log import ItemLog
from scrapy_durable.item_log.reading import BEGINNING, Accepted, Position

__all__ = ["BEGINNING", "Accepted", "ItemCodec", "ItemLog", "Position"]
