"""Where items go: one by one into a file, or in batches into a database."""

import asyncio
import json
import logging
import os
import sqlite3

from itemadapter import ItemAdapter

logger = logging.getLogger(__name__)


class EachItemToDisk:
    """Appends each item as a line of JSON to `ITEMS_FILE` (default: items.jl), and flushes it to the disk.

    A line is written in one piece, so several processes may share the file.
    """

    @classmethod
    def from_crawler(cls, crawler):
        """Take the file's name from the settings."""
        return cls(crawler.settings.get("ITEMS_FILE", "items.jl"))

    def __init__(self, path):
        self._path = path

    def open_spider(self):
        """Open the file, to append to it."""
        self._file = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        logger.info("items go to %s", self._path)

    def close_spider(self):
        """Close the file."""
        os.close(self._file)

    def process_item(self, item):
        """Keep the item."""
        os.write(self._file, json.dumps(ItemAdapter(item).asdict(), sort_keys=True).encode() + b"\n")
        os.fsync(self._file)
        return item


class ProductsToSqlite:
    """Keeps the products in `PRODUCTS_FILE` (default: products.sqlite), each once, many in one transaction.

    `received` and `durable` make it a `scrapy_durable.DurableStore`: no request is done before its products are
    committed, so a kill costs none of them. A request that is done again brings its products again, under the same
    `sku`.
    """

    AT_ONCE = 50
    SECONDS = 1.0

    @classmethod
    def from_crawler(cls, crawler):
        """Take the file's name from the settings."""
        return cls(crawler.settings.get("PRODUCTS_FILE", "products.sqlite"))

    def __init__(self, path):
        self.received = 0
        self.durable = 0
        self._path = path
        self._waiting = []

    def open_spider(self):
        """Open the database."""
        self._database = sqlite3.connect(self._path)
        self._database.execute("CREATE TABLE IF NOT EXISTS products (sku TEXT PRIMARY KEY, product TEXT)")

    def close_spider(self):
        """Commit what is left."""
        if self._waiting:
            self._commit()
        self._database.close()

    def process_item(self, item):
        """Take the item. It is committed after a second at most: nobody knows whether another one comes."""
        product = ItemAdapter(item).asdict()
        self._waiting.append((product["sku"], json.dumps(product)))
        self.received += 1
        if len(self._waiting) == 1:
            self._timer = asyncio.get_running_loop().call_later(self.SECONDS, self._commit)
        if len(self._waiting) >= self.AT_ONCE:
            self._commit()
        return item

    def _commit(self):
        self._timer.cancel()
        with self._database:
            self._database.executemany("INSERT OR REPLACE INTO products VALUES (?, ?)", self._waiting)
        self._waiting = []
        self.durable = self.received
