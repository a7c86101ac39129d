"""What Scrapy says of single requests and records: nothing, unless something is wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scrapy import logformatter

if TYPE_CHECKING:
    from scrapy.logformatter import LogFormatterResult


class QuietLogFormatter(logformatter.LogFormatter):
    """Leaves out the two lines per page and record that Scrapy logs at DEBUG; building them took a tenth of a crawl."""

    def crawled(self, *_: Any, **__: Any) -> LogFormatterResult | None:  # type: ignore[override]
        """Nothing."""
        return None

    def scraped(self, *_: Any, **__: Any) -> LogFormatterResult | None:
        """Nothing."""
        return None

    def dropped(
        self, item: Any, exception: BaseException, *args: Any, **kwargs: Any
    ) -> LogFormatterResult | None:  # type: ignore[override]
        """Nothing for what was kept in the ledger; a line without the item for a record that was set aside."""
        if getattr(exception, "log_level", None) == "DEBUG":
            return None
        return {"level": 30, "msg": "Set aside: %(problem)s", "args": {"problem": str(exception)}}
