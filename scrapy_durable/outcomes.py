"""What middlewares ask and say of a leased request, and the signals of Scrapy that say it too."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scrapy import signals

from scrapy_durable.signals import request_shares_download, shared_download_failed

if TYPE_CHECKING:
    from scrapy import Request
    from scrapy.crawler import Crawler
    from twisted.python.failure import Failure

    from scrapy_durable.leases import Leases, Task
    from scrapy_durable.throttle.sites import Sites
    from scrapy_durable.timing import Timing


class Outcomes:
    """Requests of which nothing is said are acknowledged once they have finished.

    The first that is said holds: what was put off stays put off.
    """

    def __init__(self, leases: Leases, sites: Sites, timing: Timing) -> None:
        self._leases = leases
        self._sites = sites
        self._timing = timing

    def connect(self, crawler: Crawler) -> None:
        """Listen to the signals that tell what becomes of a request."""
        connect = crawler.signals.connect
        connect(self._on_left_downloader, signals.request_left_downloader)
        connect(self._on_shares_download, request_shares_download)
        connect(self.release, shared_download_failed)
        connect(self._on_spider_error, signals.spider_error)
        connect(self._on_item_error, signals.item_error)

    def is_leased(self, request: Request) -> bool:
        """False for one that has not come out of the frontier (robots.txt)."""
        return self._leases.get(request) is not None

    def failures(self, request: Request) -> int:
        """How often the leased request was put off by `retry` before; a lease that a kill has ended does not count."""
        return self._leases[request].lease.failures

    def expect_results(self) -> None:
        """Somebody calls `note_result` for every request that is not dropped: dead-letter those that are."""
        self._leases.results_expected = True

    def note_result(self, request: Request) -> None:
        """The leased request has an outcome that its callback, its errback or a middleware has dealt with.

        One that has not left the downloader by then has never been there. If it was released, its time may have gone
        to a robots.txt.
        """
        if task := self._leases.get(request):
            task.seen = True
            if task.outcome is None:
                self._note_unsent(task)

    def retry(self, request: Request, delay: float, reason: str) -> None:
        """When the leased request finishes, queue it again after `delay` seconds instead of acknowledging it."""
        task = self._leases[request]
        task.retry(delay, reason)
        task.silence(request)

    def dead_letter(self, request: Request, reason: str) -> bool:
        """When the leased request finishes, make it a dead letter instead of acknowledging it.

        False when it is not leased, or something else was said of it before.
        """
        task = self._leases.get(request)
        return task is not None and task.dead_letter(reason)

    def release(self, request: Request) -> None:
        """When the leased request finishes, queue it again at once, as if it had not been leased."""
        task = self._leases[request]
        task.release()
        task.silence(request)

    # Signals

    def _note_unsent(self, task: Task) -> None:
        if self._leases.note_unsent(task) and self._sites.interval_of(task.lease.slot) > 0:
            self._timing.wake_now()

    def _on_shares_download(self, request: Request) -> bool:
        if task := self._leases.get(request):
            task.waits = True
            self._note_unsent(task)
        return task is not None

    def _on_left_downloader(self, request: Request) -> None:
        self._sites.was_asked = True
        if task := self._leases.get(request):
            self._leases.note_downloaded(task)
            self._timing.wake()

    def _on_spider_error(self, failure: Failure, response: Any) -> None:
        request = getattr(response, "request", None)
        if request is not None:
            self.dead_letter(request, f"{type(failure.value).__name__}: {failure.value}")

    def _on_item_error(self, failure: Failure, response: Any) -> None:
        request = getattr(response, "request", None)
        if request is not None:
            self.dead_letter(request, f"a pipeline failed: {type(failure.value).__name__}: {failure.value}")
