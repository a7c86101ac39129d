"""The durable floor: what a crawl costs that loses no record on disk, and does nothing else.

A bare asyncio client, 32 requests at once: each page and each specification once, a record the bytes of its listing
with those of its specification put in, batches of 500 flushed to the disk as they come, in the end one JSON array of
them. No queue, no retries, no throttle, no resume, no pipelines; without a garbage collector.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import os
import time
from pathlib import Path
from typing import Any, BinaryIO
from urllib.parse import quote

import aiohttp
import orjson
import uvloop
from yarl import URL

AT_ONCE = 32
BATCH = 500
Key = tuple[str, int]


class Floor:
    """One crawl into a file of lines."""

    def __init__(self, base_url: str, page_size: int, session: aiohttp.ClientSession, file: BinaryIO) -> None:
        self._base_url = base_url
        self._page_size = page_size
        self._session = session
        self._file = file
        self._specs: dict[Key, bytes] = {}
        self._waiting: dict[Key, list[bytes]] = {}
        self._seen: set[str] = set()
        self._pages: list[int] = []
        self._wanted: list[Key] = []
        self._lines: list[bytes] = []

    async def crawl(self) -> None:
        """The first page tells the total; then pages and specifications, these first, 32 at once."""
        total = await self._read_page(0)
        self._pages = list(range(self._page_size, total, self._page_size))
        await asyncio.gather(*(self._work() for _ in range(AT_ONCE)))
        self._flush()

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
        read_at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        for row in page["data"]:
            attributes = row["attributes"]
            if row["id"] in self._seen:
                continue
            self._seen.add(row["id"])
            head = orjson.dumps(
                {
                    "id": row["id"],
                    "url": attributes["website_url"],
                    "scraped_at": read_at,
                    "car_attrs": attributes,
                }
            )
            key = (attributes["code"], attributes["year"])
            if spec := self._specs.get(key):
                self._keep(head, spec)
            elif key in self._waiting:
                self._waiting[key].append(head)
            else:
                self._waiting[key] = [head]
                self._wanted.append(key)
        total: int = page["meta"]["total"]
        return total

    async def _read_spec(self, key: Key) -> None:
        answer = await self._get(f"/v2/specs/{quote(key[0], safe='')}/{key[1]}")
        data = answer.get("data")
        spec = self._specs[key] = orjson.dumps(data[0] if data else [])
        for head in self._waiting.pop(key):
            self._keep(head, spec)

    def _keep(self, head: bytes, spec: bytes) -> None:
        self._lines.append(b'%b,"car_specs":%b}\n' % (head[:-1], spec))
        if len(self._lines) >= BATCH:
            self._flush()

    def _flush(self) -> None:
        self._file.write(b"".join(self._lines))
        self._file.flush()
        os.fdatasync(self._file.fileno())
        self._lines = []

    async def _get(self, path: str) -> Any:
        async with self._session.get(URL(self._base_url + path, encoded=True)) as response:
            return orjson.loads(await response.read())


async def crawl(base_url: str, page_size: int, output: Path) -> None:
    """Crawl everything into a JSON array at `output`."""
    lines = output.with_suffix(".jsonl")
    connector = aiohttp.TCPConnector(limit=AT_ONCE)
    async with aiohttp.ClientSession(connector=connector) as session:
        with lines.open("wb") as file:
            await Floor(base_url, page_size, session, file).crawl()
    with lines.open("rb") as source, output.open("wb") as array:
        separator = b"[\n"
        for line in source:
            array.write(separator + line[:-1])
            separator = b",\n"
        array.write(b"\n]\n")
        array.flush()
        os.fsync(array.fileno())
    lines.unlink()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("base_url")
    parser.add_argument("page_size", type=int)
    parser.add_argument("output", type=Path)
    options = parser.parse_args()
    gc.disable()
    uvloop.run(crawl(options.base_url, options.page_size, options.output))
