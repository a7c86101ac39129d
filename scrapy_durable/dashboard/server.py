"""Serves the dashboard until somebody has seen enough."""

from __future__ import annotations

import asyncio
import signal
import sys
from typing import TYPE_CHECKING

from aiohttp import web

from scrapy_durable.dashboard.crawl import Crawl
from scrapy_durable.dashboard.guard import Sessions, is_loopback
from scrapy_durable.dashboard.pages import Access, Pages
from scrapy_durable.dashboard.tabs import load_tabs
from scrapy_durable.exceptions import ConfigurationError, cause
from scrapy_durable.plain import show

if TYPE_CHECKING:
    from scrapy.settings import BaseSettings


async def serve(settings: BaseSettings, spider: str, host: str, port: int, token: str) -> None:
    """Until SIGINT or SIGTERM. Says on stdout where it is. Raises `ConfigurationError` when it cannot be there."""
    enough = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, enough.set)
    crawl = Crawl(settings, spider)
    access = Access(Sessions(token), is_local=is_loopback(host))
    runner = web.AppRunner(Pages(crawl, access, load_tabs(settings)).application(), access_log=None)
    try:
        await runner.setup()
        try:
            await web.TCPSite(runner, host, port).start()
        except OSError as error:
            raise ConfigurationError(f"--host {host} --port {port}: {cause(error)}") from error
        taken = runner.addresses[0][1]
        show(sys.stdout, f"http://{f'[{host}]' if ':' in host else host}:{taken}/")
        sys.stdout.flush()
        await enough.wait()
    finally:
        await runner.cleanup()
        await crawl.close()
