"""`scrapy` with a parser to which a tenth of all codes is none: as a release that reads them wrongly."""

from __future__ import annotations

import sys
from zlib import crc32

import scrapy.cmdline

from carscraper.api import search_page
from carscraper.api.endpoints import key_problem


def stricter(code: object, year: object) -> tuple[str, str] | None:
    """Why no specification can be asked for under this key."""
    if isinstance(code, str) and crc32(code.encode()) % 10 == 0:
        return "code", "is not one to this release"
    return key_problem(code, year)


if __name__ == "__main__":
    search_page.key_problem = stricter
    sys.exit(scrapy.cmdline.execute())
