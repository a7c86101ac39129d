"""What Scrapy says of single requests and records: nothing, unless something is wrong."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from scrapy import logformatter

if TYPE_CHECKING:
    from scrapy import Request, Spider
    from scrapy.http import Response
    from scrapy.logformatter import LogFormatterResult
    from twisted.python.failure import Failure


class QuietLogFormatter(logformatter.LogFormatter):
    """Leaves out the two lines per page and record that Scrapy logs at DEBUG; building them takes time."""

    def crawled(  # type: ignore[override]
        self, request: Request, response: Response, spider: Spider
    ) -> LogFormatterResult | None:
        """Nothing."""
        return None

    def scraped(  # type: ignore[override]
        self, item: Any, response: Response | Failure | None, spider: Spider
    ) -> LogFormatterResult | None:
        """Nothing."""
        return None

    def dropped(  # type: ignore[override]
        self, item: Any, exception: BaseException, response: Response | Failure | None, spider: Spider
    ) -> LogFormatterResult | None:
        """Nothing for what was kept in the ledger; a line without the item for a record that was set aside."""
        if getattr(exception, "log_level", None) == "DEBUG":
            return None
        return {
            "level": logging.WARNING,
            "msg": "Set aside: %(problem)s",
            "args": {"problem": str(exception)},
        }
