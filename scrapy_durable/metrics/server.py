"""`/metrics` and `/healthcheck`, answered on the loop of whoever serves them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from aiohttp import web

from scrapy_durable.exceptions import ConfigurationError
from scrapy_durable.metrics import names
from scrapy_durable.metrics.health import checks, health_document
from scrapy_durable.metrics.looks import Looks
from scrapy_durable.metrics.values import Bounds, Values, crawl_values
from scrapy_durable.plain import plain_json

if TYPE_CHECKING:
    from scrapy_durable.status.report import Report

_GRACE_PERIOD = 1.0
"""Seconds that a scrape may still take when the server ends."""
_HEADERS = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}


def check_installed() -> None:
    """Raises `ConfigurationError` when `prometheus_client` is not there."""
    try:
        import prometheus_client  # noqa: F401  an extra: only who asks for metrics needs it
    except ImportError:
        raise ConfigurationError(
            "metrics need the package prometheus-client, which is not installed (the extra `operate` has it)"
        ) from None


class MetricsServer:
    """Serves what `look` sees of a crawl, and what `more` knows beside it; `process`: of this process too.

    Everybody who reaches it may read it, and it changes nothing.
    """

    def __init__(
        self, look: Callable[[], Awaitable[Report]], more: Callable[[], Values], *, process: bool
    ) -> None:
        """Raises `ConfigurationError` when `prometheus_client` is not there."""
        check_installed()
        self._looks = Looks(look)
        self._more = more
        self._process = process
        self._bounds = Bounds()
        self._runner: web.AppRunner | None = None

    async def start(self, host: str, port: int) -> str:
        """Listen there, 0: on a free port; returns the address of `/metrics`. Raises `OSError`."""
        application = web.Application()
        application.router.add_get("/metrics", self._metrics)
        application.router.add_get("/healthcheck", self._healthcheck)
        runner = web.AppRunner(application, access_log=None, shutdown_timeout=_GRACE_PERIOD)
        await runner.setup()
        try:
            await web.TCPSite(runner, host, port).start()
        except OSError:
            await runner.cleanup()
            raise
        self._runner = runner
        taken = runner.addresses[0][1]
        return f"http://{f'[{host}]' if ':' in host else host}:{taken}/metrics"

    async def stop(self) -> None:
        """End it, if it has started."""
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    async def _metrics(self, request: web.Request) -> web.Response:
        from scrapy_durable.metrics.exposition import CONTENT_TYPE, exposition

        await self._looks.refresh()
        report = self._looks.report
        values: Values = {
            names.FRONTIER_UP: {(): float(report is not None)},
            names.LOOK_SECONDS: {(): self._looks.seconds},
        }
        crawl = crawl_values(report, self._bounds) if report is not None else {}
        body = exposition((values, crawl, self._more()), process=self._process)
        return web.Response(body=body, headers={**_HEADERS, "Content-Type": CONTENT_TYPE})

    async def _healthcheck(self, request: web.Request) -> web.Response:
        """This process answers; with `?complete`, whether all is well."""
        if "complete" not in request.query:
            return _json({"status": "ok"}, 200)
        await self._looks.refresh()
        report = self._looks.report
        found = list(checks(report, self._looks.why_not))
        is_well = not any(check.why for check in found)
        document = health_document(found, report.condition.word if report is not None else None)
        return _json(document, 200 if is_well else 503)


def _json(document: object, status: int) -> web.Response:
    body = plain_json(document)
    return web.Response(body=body, status=status, headers={**_HEADERS, "Content-Type": "application/json"})
