"""Starts the stand-in from command-line options, and runs it until a signal."""

from __future__ import annotations

import argparse
import asyncio
import signal
import sys
from contextlib import ExitStack
from pathlib import Path

import orjson
import uvloop
from aiohttp import web

from carscraper.demo.catalogue import Catalogue
from carscraper.demo.journal import Journal
from carscraper.demo.server import BASE_PATH, StandIn
from scrapy_durable.exceptions import ConfigurationError


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options of `scrapy demo`."""
    group = parser.add_argument_group(title="Stand-in")
    group.add_argument("--listings", metavar="N", default="2000", help="listings on sale (default: 2000)")
    group.add_argument(
        "--seed", metavar="N", default="1", help="another seed, another catalogue (default: 1)"
    )
    group.add_argument("--host", default="127.0.0.1", help="address to listen on (default: 127.0.0.1)")
    group.add_argument(
        "--port", metavar="N", default="0", help="port to listen on (default: 0, any free one)"
    )
    group.add_argument(
        "--latency", metavar="S", default="0", help="seconds added to each answer (default: 0)"
    )
    group.add_argument("--faults", metavar="FILE", help="JSON script of faults and changes (default: none)")
    group.add_argument("--journal", metavar="FILE", help="write each request as a line of JSON (default: no)")


def run(options: argparse.Namespace) -> None:
    """Serve until SIGINT or SIGTERM; the first line on stdout is the address, as `CARS_API_URL` takes it.

    Raises ConfigurationError, which names the option, before anything is served.
    """
    with ExitStack() as open_files:
        lines = None
        if options.journal:
            try:
                lines = open_files.enter_context(
                    Path(options.journal).open("a", buffering=1, encoding="utf-8")
                )
            except OSError as error:
                raise ConfigurationError(f"--journal: {error}") from error
        catalogue = Catalogue(_whole("--listings", options.listings), _whole("--seed", options.seed))
        stand_in = StandIn(catalogue, Journal(lines), _seconds("--latency", options.latency))
        if options.faults:
            stand_in.load(_script(Path(options.faults)))
        uvloop.run(_serve(stand_in, options.host, _whole("--port", options.port, highest=65_535)))


async def _serve(stand_in: StandIn, host: str, port: int) -> None:
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    for wanted in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(wanted, stop.set)
    server = web.Server(stand_in.handle, handler_cancellation=True, access_log=None)
    try:
        listener = await loop.create_server(server, host, port, backlog=1024)
    except OSError as error:
        raise ConfigurationError(f"--host, --port: {error}") from error
    bound_host, bound_port = listener.sockets[0].getsockname()[:2]
    shown = f"[{bound_host}]" if ":" in bound_host else bound_host
    sys.stdout.write(f"http://{shown}:{bound_port}{BASE_PATH}\n")
    sys.stdout.flush()
    await stop.wait()
    listener.close()
    await server.shutdown(timeout=0.1)


def _script(path: Path) -> object:
    try:
        return orjson.loads(path.read_bytes())
    except (OSError, orjson.JSONDecodeError) as error:
        raise ConfigurationError(f"--faults: {path}: {error}") from error


def _whole(option: str, text: str, highest: int = 10**8) -> int:
    try:
        number = int(text)
    except ValueError as error:
        raise ConfigurationError(f"{option}: not a whole number: {text!r}") from error
    if not 0 <= number <= highest:
        raise ConfigurationError(f"{option}: not from 0 to {highest}: {text}")
    return number


def _seconds(option: str, text: str) -> float:
    try:
        seconds = float(text)
    except ValueError as error:
        raise ConfigurationError(f"{option}: not a number of seconds: {text!r}") from error
    if not 0 <= seconds <= 3_600:
        raise ConfigurationError(f"{option}: not from 0 to 3600 seconds: {text}")
    return seconds
