"""`scrapy` with a parser to which a listing fits only when its `colour` is text: as a release that reads it wrongly."""

from __future__ import annotations

import sys

import scrapy.cmdline

from carscraper.api import search_page

if __name__ == "__main__":
    search_page.ATTRIBUTE_TYPES["colour"] = frozenset({str})
    sys.exit(scrapy.cmdline.execute())
