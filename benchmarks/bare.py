"""The limit: a bare asyncio client that fetches every page and each spec once, and promises nothing.

32 requests at once; all records are kept in memory and dumped once at the end. No retries, no throttle, no
resume.
"""

from __future__ import annotations

import argparse
import asyncio
from pathlib import Path
from typing import Any
from urllib.parse import quote

import aiohttp
import orjson
import uvloop
from yarl import URL

AT_ONCE = 32


class BareClient:
    """One crawl: `listings` by id, `specs` by (code, year)."""

    def __init__(self, base_url: str, page_size: int, session: aiohttp.ClientSession) -> None:
        self._base_url = base_url
        self._page_size = page_size
        self._session = session
        self.listings: dict[str, dict[str, Any]] = {}
        self.specs: dict[tuple[str, int], list[Any]] = {}
        self._pages: list[int] = []
        self._wanted: list[tuple[str, int]] = []

    async def crawl(self) -> None:
        """The first page tells the total; then pages and specs, specs first, 32 at once."""
        total = await self._read_page(0)
        self._pages = list(range(self._page_size, total, self._page_size))
        await asyncio.gather(*(self._work() for _ in range(AT_ONCE)))

    def records(self) -> list[dict[str, Any]]:
        """What a crawl keeps: the attributes of each listing and the spec that it shares."""
        return [
            {
                "id": listing_id,
                "url": attributes["website_url"],
                "car_attrs": attributes,
                "car_specs": self.specs[attributes["code"], attributes["year"]],
            }
            for listing_id, attributes in self.listings.items()
        ]

    async def _work(self) -> None:
        while True:
            if self._wanted:
                await self._read_spec(self._wanted.pop())
            elif self._pages:
                await self._read_page(self._pages.pop())
            else:
                return

    async def _read_page(self, offset: int) -> int:
        query = f"page%5Boffset%5D={offset}&page%5Blimit%5D={self._page_size}"
        page = await self._get(f"/v3/vehicle?{query}&include_featured=true&sort%5Bdate%5D=desc")
        for row in page["data"]:
            attributes = row["attributes"]
            self.listings[row["id"]] = attributes
            key = (attributes["code"], attributes["year"])
            if key not in self.specs:
                self.specs[key] = []
                self._wanted.append(key)
        total: int = page["meta"]["total"]
        return total

    async def _read_spec(self, key: tuple[str, int]) -> None:
        answer = await self._get(f"/v2/specs/{quote(key[0], safe='')}/{key[1]}")
        data = answer.get("data")
        self.specs[key] = data[0] if data else []

    async def _get(self, path: str) -> Any:
        async with self._session.get(URL(self._base_url + path, encoded=True)) as response:
            return orjson.loads(await response.read())


async def crawl(base_url: str, page_size: int, output: Path) -> None:
    """Crawl everything into a JSON array at `output`."""
    connector = aiohttp.TCPConnector(limit=AT_ONCE)
    async with aiohttp.ClientSession(connector=connector) as session:
        client = BareClient(base_url, page_size, session)
        await client.crawl()
    output.write_bytes(orjson.dumps(client.records()))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("base_url")
    parser.add_argument("page_size", type=int)
    parser.add_argument("output", type=Path)
    options = parser.parse_args()
    uvloop.run(crawl(options.base_url, options.page_size, options.output))
