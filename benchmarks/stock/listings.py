"""Stock Scrapy: a plain spider that asks for the specification of each listing in a request of its own.

Scrapy's defaults, but 32 requests at once, no consoles, and a log without a line per item.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from typing import Any, ClassVar
from urllib.parse import quote

from scrapy import Request, Spider
from scrapy.http import Response


class ListingsSpider(Spider):
    """Arguments: `base_url`, and `page_size` in listings."""

    name = "listings"
    custom_settings: ClassVar[dict[str, Any]] = {  # type: ignore[misc]
        "CONCURRENT_REQUESTS": 32,
        "CONCURRENT_REQUESTS_PER_DOMAIN": 32,
        "TELNETCONSOLE_ENABLED": False,
        "REMOTE_CONTROL_ENABLED": False,
        "LOG_LEVEL": "INFO",
    }
    handle_httpstatus_list: ClassVar[list[int]] = [404]

    def __init__(self, base_url: str, page_size: str) -> None:
        super().__init__()
        self._base_url = base_url
        self._page_size = int(page_size)
        self._seen: set[str] = set()

    async def start(self) -> AsyncIterator[Request]:
        """The first page."""
        yield self._page(0)

    def parse(self, response: Response, offset: int) -> Iterator[Request]:
        """A request per listing; from the first page on, also one per further page."""
        page = json.loads(response.body)
        if offset == 0:
            for following in range(self._page_size, page["meta"]["total"], self._page_size):
                yield self._page(following)
        for row in page["data"]:
            if row["id"] not in self._seen:  # featured listings come again
                self._seen.add(row["id"])
                attributes = row["attributes"]
                yield Request(
                    f"{self._base_url}/v2/specs/{quote(attributes['code'], safe='')}/{attributes['year']}",
                    callback=self.parse_spec,
                    cb_kwargs={"listing": row},
                    dont_filter=True,
                )

    def parse_spec(self, response: Response, listing: dict[str, Any]) -> Iterator[dict[str, Any]]:
        """One record."""
        data = json.loads(response.body).get("data")
        attributes = listing["attributes"]
        yield {
            "id": listing["id"],
            "url": attributes["website_url"],
            "car_attrs": attributes,
            "car_specs": data[0] if data else [],
        }

    def _page(self, offset: int) -> Request:
        query = f"page%5Boffset%5D={offset}&page%5Blimit%5D={self._page_size}"
        return Request(
            f"{self._base_url}/v3/vehicle?{query}&include_featured=true&sort%5Bdate%5D=desc",
            cb_kwargs={"offset": offset},
        )
