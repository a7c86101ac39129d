"""Only the configured API is ever asked: not what a redirect, a link or a name server leads to."""

from __future__ import annotations

import asyncio
import re
import socket
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from http.client import RemoteDisconnected
from urllib.parse import quote
from urllib.request import urlopen

import pytest
from aiohttp.abc import AbstractResolver, ResolveResult

from scrapy_durable.downloads import AddressRefused, GuardedResolver, is_public_address, is_public_name
from tests.hostile.conftest import SECONDS, Start
from tests.standin import PAGE_PATH, SPEC_PATH, StandIn
from tests.tripwires import Tripwire

NOWHERE = ["http://169.254.169.254/latest/meta-data/", "file:///etc/passwd", "//169.254.169.254/"]
"""Where nothing can listen here; that nothing was asked shows in the reason and in the time that it took."""


@pytest.fixture
def tripwires() -> Iterator[list[Tripwire]]:
    with ExitStack() as stack:
        yield [stack.enter_context(Tripwire(address)) for address in ("127.0.0.1", "127.0.0.2", "::1")]


@pytest.mark.parametrize("status", [301, 302, 307])
def test_a_redirect_is_never_followed_not_even_after_a_retry(
    site: StandIn, start: Start, tripwires: list[Tripwire], status: int
) -> None:
    targets = sorted(f"{SPEC_PATH}{quote(code, safe='')}/{year}" for code, year in site.keys())  # noqa: SIM118
    locations = [*(tripwire.url for tripwire in tripwires), *NOWHERE, ""]
    pairs = [*zip(targets, locations, strict=False), *zip(targets[10:], locations, strict=False)]
    rules = [
        {"match": f"^{re.escape(target)}$", "fault": "redirect", "location": location, "status": status}
        for target, location in pairs
    ]
    failing_first = "|".join(re.escape(target) for target in targets[10 : 10 + len(locations)])
    rules.insert(0, {"match": f"^({failing_first})$", "fault": "status", "times": 1, "per": "target"})
    site.faults(rules)
    run = start()
    assert run.wait(SECONDS) == 1, run.log
    assert [tripwire.touched for tripwire in tripwires] == [0, 0, 0]
    reasons = {letter["reason"] for letter in run.run_json()["given_up"]}
    hosts = ["http://127.0.0.1", "http://127.0.0.2", "http://::1", "http://169.254.169.254", "file://"]
    assert reasons == {f"status {status}, a redirect to {host!r}, which is not followed" for host in hosts}
    assert "Traceback" not in run.log


def test_a_tripwire_can_be_touched(tripwires: list[Tripwire]) -> None:
    """The counterpart."""
    for tripwire in tripwires:
        with pytest.raises((RemoteDisconnected, ConnectionResetError)):
            urlopen(tripwire.url, timeout=5)
    assert all(tripwire.touched for tripwire in tripwires)


def test_a_redirected_robots_txt_is_not_followed_elsewhere(
    site: StandIn, start: Start, tripwires: list[Tripwire]
) -> None:
    for tripwire in tripwires:
        site.faults([{"match": "^/robots.txt", "fault": "redirect", "location": tripwire.url}])
        run = start(settings={"RETRY_TIMES": 1})
        assert run.wait(SECONDS) == 1, run.log
        assert run.run_json()["status"] == "stopped: robots_unavailable"
    assert [tripwire.touched for tripwire in tripwires] == [0, 0, 0]


def test_a_link_to_the_next_page_is_read_for_its_offset_only(
    site: StandIn, start: Start, tripwires: list[Tripwire]
) -> None:
    link = f"{tripwires[1].url}fw/public/v3/vehicle?page%5Boffset%5D=50"
    site.faults(
        [
            {
                "match": f"{PAGE_PATH}.*offset%5D=0&",
                "fault": "edit",
                "path": "links.next",
                "do": "set",
                "to": link,
            }
        ]
    )
    run = start(settings={"CARS_PAGE_SIZE": 50})
    assert run.wait(SECONDS) == 0, run.log
    assert [tripwire.touched for tripwire in tripwires] == [0, 0, 0]


@pytest.mark.parametrize(
    ("host", "public"),
    [
        ("api.cars.co.za", True),
        ("api.cars.co.za.", True),
        ("localhost", False),
        ("api.localhost", False),
        ("standin", False),
        ("127.0.0.1", False),
        ("::1", False),
        ("8.8.8.8", False),
    ],
)
def test_only_names_of_the_internet_are_public(host: str, public: bool) -> None:
    assert is_public_name(host) is public


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1 127.0.0.2 10.1.2.3 172.16.0.1 192.168.1.1 169.254.169.254 100.64.0.1 0.0.0.0 224.0.0.1",
        "255.255.255.255 ::1 :: fe80::1 fe80::1%2 fc00::1 ff02::1 ::ffff:127.0.0.1 ::ffff:10.0.0.1",
        "64:ff9b::7f00:1 2002:7f00:1:: 192.0.2.1 240.0.0.1",
        "fec0::1 ::127.0.0.1 ::ffff:0:a9fe:a9fe 3fff::1 192.0.0.8 192.0.0.9 2001::1 2001:db8::1 100::1",
    ],
)
def test_addresses_of_this_machine_and_its_network_are_not_public(address: str) -> None:
    assert not [text for text in address.split() if is_public_address(text)]


@pytest.mark.parametrize("address", ["8.8.8.8", "196.25.1.1", "2606:4700::1111", "::ffff:8.8.8.8"])
def test_addresses_of_the_internet_are_public(address: str) -> None:
    assert is_public_address(address)


class Fixed(AbstractResolver):
    """Resolves every name to the same addresses."""

    def __init__(self, *addresses: str) -> None:
        self._addresses = addresses

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        return [
            ResolveResult(hostname=host, host=address, port=port, family=family, proto=0, flags=0)
            for address in self._addresses
        ]

    async def close(self) -> None:
        pass


def test_a_name_with_one_private_address_among_public_ones_is_refused() -> None:
    guarded = GuardedResolver(Fixed("8.8.8.8", "10.0.0.1"), ["api.cars.co.za"])
    with pytest.raises(AddressRefused, match=r"10\.0\.0\.1"):
        asyncio.run(guarded.resolve("API.cars.co.za", 443))


def test_public_addresses_and_the_addresses_of_proxies_pass() -> None:
    assert asyncio.run(GuardedResolver(Fixed("8.8.8.8"), ["api.cars.co.za"]).resolve("api.cars.co.za"))
    assert asyncio.run(GuardedResolver(Fixed("10.0.0.1"), ["api.cars.co.za"]).resolve("proxy.example.com"))


REBOUND = """
import socket
real = socket.getaddrinfo
def rebound(host, *rest, **options):
    return real("127.0.0.1" if host in ("api.example.com", "standin") else host, *rest, **options)
socket.getaddrinfo = rebound
from scrapy.cmdline import execute
execute()
"""


def test_a_public_name_that_leads_to_this_machine_is_refused_and_a_private_one_is_not(
    site: StandIn, start: Start
) -> None:
    settings = {"ASYNCIO_EVENT_LOOP": "asyncio.SelectorEventLoop", "RETRY_TIMES": 1}
    runner = (sys.executable, "-c", REBOUND)
    run = start(api_url=f"http://api.example.com:{site.port}/fw/public", runner=runner, settings=settings)
    assert run.wait(SECONDS) == 1, run.log
    assert "api.example.com leads to 127.0.0.1, which is not on the internet" in run.log
    assert site.journal() == []

    run = start(api_url=f"http://standin:{site.port}/fw/public", runner=runner, settings=settings)
    assert run.wait(SECONDS) == 0, run.log
