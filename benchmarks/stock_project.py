"""What the add-on costs: a stock project on Scrapy's own JOBDIR, and with the add-on, in pairs, in turns.

A spider follows the links of a local site of HTML pages, one to each product, and yields an item of each. The site is
served from memory on loopback, without delays: so what is compared is Scrapy with one queue and with the other. Each
crawl begins with an empty JOBDIR. The ratios are those of the pairs, with their median. The exit status is 1 when a
crawl did not end well or lacks an item, or when the add-on takes more than `--most` times as much CPU or wall time.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import uvloop

from benchmarks.contestants import ROOT, clean_environment
from benchmarks.static_server import Connection, whole

PER_PAGE = 50
"""Products that a page of the list links to."""
SPIDER = """
import scrapy


class ProductsSpider(scrapy.Spider):
    name = "products"

    async def start(self):
        yield scrapy.Request(self.site)

    def parse(self, response):
        for link in response.css("li.product a"):
            yield response.follow(link, self.parse_product, cb_kwargs={"link_text": link.css("::text").get()})
        yield from response.follow_all(css="a.next")

    def parse_product(self, response, link_text):
        yield {
            "name": response.css("h1::text").get(),
            "link_text": link_text,
            "price": response.css(".price::text").get(),
            "properties": dict(zip(response.css("dt::text").getall(), response.css("dd::text").getall())),
            "url": response.url,
        }
"""
SETTINGS = {
    "BOT_NAME": "stock",
    "SPIDER_MODULES": ["spiders"],
    "CONCURRENT_REQUESTS": 16,
    "CONCURRENT_REQUESTS_PER_DOMAIN": 16,
    "LOG_LEVEL": "INFO",
}
ADDON = {"ADDONS": {"scrapy_durable.Addon": 500}}


class Shop:
    """The site: a list of products, page by page, and a page of each."""

    def __init__(self, products: int) -> None:
        self._products = products

    def answer(self, target: bytes) -> bytes:
        """The whole answer to a request of `target`."""
        kind, _, number = target.decode().strip("/").partition("/")
        if kind in ("", "list"):
            return self._list(int(number or 0))
        return self._product(int(number)) if kind == "product" else whole(404, b"", "text/html")

    def _list(self, page: int) -> bytes:
        first = page * PER_PAGE
        numbers = range(first, min(first + PER_PAGE, self._products))
        links = "".join(
            f'<li class="product"><a href="/product/{number}">Product {number}</a>' for number in numbers
        )
        more = f'<a class="next" href="/list/{page + 1}">more</a>' if numbers.stop < self._products else ""
        return whole(200, f"<html><body><ul>{links}</ul>{more}</body></html>".encode(), "text/html")

    def _product(self, number: int) -> bytes:
        properties = "".join(f"<dt>property {each}</dt><dd>{number * each}</dd>" for each in range(20))
        body = (
            f'<html><body><h1>Product {number}</h1><p class="price">{number}.00</p><dl>{properties}</dl>'
            f"<p>{'All that there is to say of it. ' * 60}</p></body></html>"
        )
        return whole(200, body.encode(), "text/html")


async def serve(products: int) -> None:
    """Print the address; serve until SIGTERM."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, stop.set)
    shop = Shop(products)
    listener = await loop.create_server(lambda: Connection(shop), "127.0.0.1", 0)
    print(f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}/", flush=True)
    await stop.wait()


@contextmanager
def site(products: int) -> Iterator[str]:
    """The site in a process of its own; gives its address."""
    command = [sys.executable, "-m", __spec__.name, "--serve", str(products)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield process.stdout.readline().strip()
        finally:
            process.terminate()


@dataclass(frozen=True)
class Cost:
    """What one crawl took, in seconds."""

    cpu: float
    wall: float


def crawl(url: str, products: int, settings: Mapping[str, object]) -> Cost:
    """Crawl the site in a fresh project; raises RuntimeError when an item is missing or the crawl ends badly."""
    with tempfile.TemporaryDirectory() as directory:
        project = Path(directory)
        (project / "spiders.py").write_text(SPIDER)
        (project / "settings.py").write_text(
            "".join(
                f"{name} = {value!r}\n" for name, value in {**SETTINGS, **settings, "JOBDIR": "job"}.items()
            )
        )
        environment = {
            **clean_environment(),
            "SCRAPY_SETTINGS_MODULE": "settings",
            "PYTHONPATH": f"{project}{os.pathsep}{ROOT}",
        }
        began = time.monotonic()
        with (project / "log").open("wb") as log:
            command = [sys.executable, "-m", "scrapy", "crawl", "products", "-a", f"site={url}"]
            process = subprocess.Popen(command, cwd=project, env=environment, stdout=log, stderr=log)
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
        wall = time.monotonic() - began
        said = (project / "log").read_text(errors="replace")
        if process.returncode != 0 or f"'item_scraped_count': {products}," not in said:
            raise RuntimeError(said[-5_000:])
        return Cost(usage.ru_utime + usage.ru_stime, wall)


def run_pairs(products: int, pairs: int) -> Iterator[tuple[Cost, Cost]]:
    """What the add-on and Scrapy's own JOBDIR took, pair by pair, the order changing."""
    with site(products) as url:
        for number in range(pairs):
            found: dict[bool, Cost] = {}
            for with_addon in (True, False) if number % 2 else (False, True):
                found[with_addon] = crawl(url, products, ADDON if with_addon else {})
            yield found[True], found[False]


def ratios(pairs: Sequence[tuple[Cost, Cost]], measured: str) -> list[float]:
    """The add-on's over Scrapy's own, from the lowest to the highest."""
    return sorted(getattr(ours, measured) / getattr(stock, measured) for ours, stock in pairs)


def main(arguments: Sequence[str] | None = None) -> int:
    """Returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.stock_project", description=__doc__)
    parser.add_argument("--products", type=int, default=4_000)
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--most", type=float, default=1.1)
    parser.add_argument("--serve", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.serve is not None:
        uvloop.run(serve(options.serve))
        return 0
    pairs = []
    for ours, stock in run_pairs(options.products, options.pairs):
        pairs.append((ours, stock))
        print(
            f"add-on: CPU {ours.cpu:6.2f} s, wall {ours.wall:6.2f} s   "
            f"Scrapy's own: CPU {stock.cpu:6.2f} s, wall {stock.wall:6.2f} s",
            flush=True,
        )
    too_much = False
    for measured in ("cpu", "wall"):
        found = ratios(pairs, measured)
        print(f"{measured}: ratio of pairs {median(found):.3f} ({found[0]:.3f} to {found[-1]:.3f})")
        too_much |= median(found) > options.most
    return 1 if too_much else 0


if __name__ == "__main__":
    sys.exit(main())
