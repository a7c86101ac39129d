"""Where items go: into a file that holds each one as soon as the pipeline has returned."""

import json
import logging
import os

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
