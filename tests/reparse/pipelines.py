"""Item pipelines as others may have them, for `-s ITEM_PIPELINES=…`."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

from scrapy.exceptions import DropItem

from carscraper.items import Car


class Notebook:
    """Writes to the file `NOTEBOOK` what it is called for. Drops a fourth of the cars."""

    def __init__(self) -> None:
        self._path = Path(os.environ["NOTEBOOK"])

    def open_spider(self) -> None:
        self._note("open")

    def process_item(self, item: Any) -> Any:
        if isinstance(item, Car):
            self._note(f"car {item.id}")
            if int(item.id) % 4 == 0:
                raise DropItem("not wanted here")
        return item

    async def close_spider(self) -> None:
        await asyncio.sleep(0)
        self._note("close")

    def _note(self, line: str) -> None:
        with self._path.open("a") as file:
            file.write(line + "\n")


class SlowStore:
    """Keeps what it is given half a second later. (This is a durable store.)"""

    def __init__(self) -> None:
        self.received = 0
        self.durable = 0
        self._path = Path(os.environ["NOTEBOOK"])

    async def process_item(self, item: Any) -> Any:
        self.received += 1
        asyncio.get_running_loop().call_later(0.5, self._keep)
        return item

    def _keep(self) -> None:
        self.durable += 1
        published = (Path(os.environ["OUTPUT"]) / "cars.json").exists()
        self._path.write_text(f"{self.durable} {published}\n")


class Broken:
    """Fails at the tenth car."""

    def __init__(self) -> None:
        self._cars = 0

    def process_item(self, item: Any) -> Any:
        self._cars += isinstance(item, Car)
        if self._cars == 10:
            raise ZeroDivisionError("the tenth")
        return item


class Slow:
    """Takes its time for each car."""

    async def process_item(self, item: Any) -> Any:
        if isinstance(item, Car):
            await asyncio.sleep(0.05)
        return item
