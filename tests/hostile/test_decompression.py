"""Bodies that cannot be unpacked go on with a flag; one that another middleware drops is still a dead letter."""

from __future__ import annotations

import gzip
import sys
import zlib
from collections.abc import Callable

import brotli  # type: ignore[import-untyped]
import pytest
from scrapy import Request
from scrapy.http import Response
from scrapy.utils.test import get_crawler

from scrapy_durable.responses.decompression import DecompressionMiddleware
from tests.hostile.conftest import SECONDS, Start
from tests.standin import SPEC_PATH, StandIn

BODY = b'{"data": [[]]}' * 1000


def unpack(encoding: str, body: bytes, limit: int = 100_000) -> Response:
    middleware = DecompressionMiddleware(crawler=get_crawler(settings_dict={"DOWNLOAD_MAXSIZE": limit}))
    response = Response("http://a/", headers={"Content-Encoding": encoding}, body=body, flags=["kept"])
    unpacked = middleware.process_response(Request("http://a/"), response)
    assert isinstance(unpacked, Response)
    return unpacked


@pytest.mark.parametrize(
    ("encoding", "pack"), [("gzip", gzip.compress), ("br", brotli.compress), ("deflate", zlib.compress)]
)
def test_a_body_within_bounds_is_unpacked(encoding: str, pack: Callable[[bytes], bytes]) -> None:
    packed = pack(BODY)
    assert unpack(encoding, packed).body == BODY
    too_large = unpack(encoding, packed, limit=1000)
    assert (too_large.body, too_large.flags) == (b"", ["kept", "too_large"])


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "br", "zstd"])
def test_garbage_is_flagged_instead_of_raised(encoding: str) -> None:
    garbage = unpack(encoding, b"\x00garbage" * 10)
    assert (garbage.body, garbage.flags) == (b"", ["kept", "undecodable"])
    assert "Content-Encoding" not in garbage.headers


DROPS = """
from scrapy.exceptions import IgnoreRequest
import scrapy_durable.allow_list as allow_list
def process_response(self, request, response):
    if "/specs/" in request.url:
        raise IgnoreRequest("dropped")
    return response
allow_list.AllowListMiddleware.process_response = process_response
from scrapy.cmdline import execute
execute()
"""


def test_what_a_middleware_drops_on_the_way_back_is_a_dead_letter(site: StandIn, start: Start) -> None:
    """Scrapy tells nobody of these: without a look at what comes past the last middleware they would be lost."""
    run = start(settings={"CARS_PAGE_SIZE": 20}, runner=(sys.executable, "-c", DROPS))
    assert run.wait(SECONDS) == 1, run.log
    told = run.run_json()
    assert told["given_up"], run.log
    assert {letter["reason"] for letter in told["given_up"]} == {"dropped on its way back from the site"}
    assert {listing for letter in told["given_up"] for listing in letter["listings"]} == set(site.ids())
    assert all(SPEC_PATH in letter["url"] for letter in told["given_up"])
