"""The download handler: the network, as far as this crawl may reach into it."""

from __future__ import annotations

import asyncio
import errno
import ipaddress
import socket
from functools import partial
from typing import TYPE_CHECKING, ClassVar, NoReturn, cast

from aiohttp import ClientHttpProxyError, ClientResponseError
from aiohttp.abc import AbstractResolver, ResolveResult
from scrapy.exceptions import DownloadFailedError

from scrapy_durable.config import Config
from scrapy_durable.engine.handler import OpenHandler
from scrapy_durable.heads import BoundedResponseHandler
from scrapy_durable.origins import host_of
from scrapy_durable.proxies import TunnelRefused
from scrapy_durable.retry.middleware import RequestFailed
from scrapy_durable.scheduler import frontier_scheduler
from scrapy_durable.stopping import is_stopping

if TYPE_CHECKING:
    from collections.abc import Collection

    from scrapy import Request
    from scrapy.crawler import Crawler
    from scrapy.http import Response

_POLL_INTERVAL = 0.5
"""Seconds between two checks whether the crawl is being stopped."""
_LONGEST = 300
"""Characters of aiohttp's words for what is not HTTP, which repeat it."""
_GRACE_PERIOD = 2.5
"""Seconds that a request in flight may still take when the crawl is being stopped."""
_GLOBAL = ipaddress.IPv6Network("2000::/3")
"""All that IPv6 has given to the internet so far (RFC 4291); translators and tunnels to IPv4 have other addresses."""
_NOT_PUBLIC = (
    ipaddress.IPv6Network("2002::/16"),  # 6to4: an IPv4 address of any kind
    ipaddress.IPv6Network(
        "3fff::/20"
    ),  # for documentation (RFC 9637), which Python does not know before 3.13
    ipaddress.IPv4Network("192.0.0.0/24"),  # for protocols; newer Pythons call some of it public
)


class AddressRefused(OSError):
    """Raised when a public name leads to an address of this machine or its network."""


def is_public_name(host: str) -> bool:
    """Whether a host is a name that anyone on the internet could have given an address to.

    Neither are IP addresses, `localhost`, and names without a dot, which only this machine or network knows.
    """
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return "." in host.rstrip(".") and not host.rstrip(".").lower().endswith(".localhost")
    return False


def is_public_address(text: str) -> bool:
    """Whether an IP address is one of the internet: not private, loopback, link-local, multicast or reserved."""
    address = ipaddress.ip_address(text)
    if isinstance(address, ipaddress.IPv6Address):
        if address.ipv4_mapped:
            return is_public_address(str(address.ipv4_mapped))
        if address not in _GLOBAL:
            return False
    if any(address in network for network in _NOT_PUBLIC if network.version == address.version):
        return False
    return address.is_global and not address.is_multicast


class GuardedResolver(AbstractResolver):
    """Resolves names, and refuses addresses that are not public for some hosts, whatever their name servers say.

    `hosts` are in lower case. All others are left alone: those are proxies, which the operator has named, and often
    on this machine.
    """

    def __init__(self, resolver: AbstractResolver, hosts: Collection[str]) -> None:
        self._resolver = resolver
        self._hosts = frozenset(hosts)

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        """The addresses of a host. Raises `AddressRefused`, an `OSError` as resolvers raise it."""
        found = await self._resolver.resolve(host, port, family)
        if host.lower() in self._hosts:
            for result in found:
                if not is_public_address(result["host"]):
                    problem = f"{host} leads to {result['host']}, which is not on the internet"
                    raise AddressRefused(errno.EACCES, problem)
        return found

    async def close(self) -> None:
        """Close the resolver within."""
        await self._resolver.close()


class GuardedDownloadHandler(OpenHandler):
    """Scrapy's handler on aiohttp, which takes half the CPU time of Scrapy's own client per request.

    An allowed origin (`DURABLE_ALLOWED_ORIGINS`) whose host is a public name is refused any address that is not
    public: whoever controls the name server must not lead this crawl to the machine that it runs on, or the network
    around it. What comes before a body is bounded (`heads.py`). Nothing is sent any more once the crawl is being
    stopped, and what is in flight then has a few seconds left.
    """

    experimental: ClassVar[bool] = False  # its warning is for those who have not tested it
    lazy = True  # made with the first request: `scrapy shell` has no loop running before

    def __init__(self, crawler: Crawler) -> None:
        super().__init__(crawler)
        self._under_way: set[asyncio.Task[object]] = set()
        self._abandoned: set[asyncio.Task[object]] = set()
        self._watching: asyncio.Task[None] | None = None
        allowed = Config.from_settings(crawler.settings).allowed_origins
        guarded = [host for host in map(host_of, allowed) if is_public_name(host)]
        self.connect_with(BoundedResponseHandler, partial(GuardedResolver, hosts=guarded))

    async def download_request(self, request: Request) -> Response:
        """Ask. Raises `RequestFailed` when the crawl is being stopped, and what Scrapy's handler raises."""
        if is_stopping(self.crawler):
            self._release(request)
        if self._watching is None:
            self._watching = asyncio.create_task(self._watch_for_the_end())
        task = cast("asyncio.Task[object]", asyncio.current_task())
        self._under_way.add(task)
        try:
            return await super().download_request(request)
        except asyncio.CancelledError:
            if task not in self._abandoned:
                raise
            task.uncancel()
            self._release(request)
        except DownloadFailedError as error:
            # aiohttp's words for these two name the proxy with its password.
            if isinstance(error.__cause__, ClientHttpProxyError):
                raise TunnelRefused(f"the proxy answers {error.__cause__.status}") from None
            if isinstance(error.__cause__, ClientResponseError):
                raise DownloadFailedError(f"not HTTP: {error.__cause__.message[:_LONGEST]!r}") from None
            raise
        finally:
            self._under_way.discard(task)
            self._abandoned.discard(task)

    async def close(self) -> None:
        """End the watch, and close the connections."""
        if self._watching is not None:
            self._watching.cancel()
        await super().close()

    async def _watch_for_the_end(self) -> None:
        """Once the crawl is being stopped, wait a little for what is in flight, then abandon it."""
        while not is_stopping(self.crawler):
            await asyncio.sleep(_POLL_INTERVAL)
        await asyncio.sleep(_GRACE_PERIOD)
        self._abandoned |= self._under_way
        for task in self._under_way:
            task.cancel()

    def _release(self, request: Request) -> NoReturn:
        scheduler = frontier_scheduler(self.crawler)
        if scheduler and scheduler.outcomes.is_leased(request):
            scheduler.outcomes.release(request)
        raise RequestFailed("the crawl is being stopped")
