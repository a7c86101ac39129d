"""The spider of `benchmarks/workers.py`: so many pages of one site, with nothing on them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any, ClassVar

from scrapy import Request, Spider
from scrapy.http import Response


class PagesSpider(Spider):
    """Asks for pages 0 to `pages` - 1 of `site`."""

    name = "pages"
    custom_settings: ClassVar[dict[str, Any]] = {
        "ADDONS": {"scrapy_durable.Addon": 500},
        "AUTOTHROTTLE_ENABLED": False,
        "DOWNLOAD_DELAY": 0,
        "LOG_LEVEL": "WARNING",
        "ROBOTSTXT_OBEY": False,
        "TELNETCONSOLE_ENABLED": False,
    }

    async def start(self) -> AsyncIterator[Request]:
        """All at once; one worker does it."""
        for page in range(int(self.pages)):
            yield Request(f"{self.site}/{page}")

    def parse(self, response: Response) -> Iterator[dict[str, Any]]:
        """Nothing."""
        yield from ()
