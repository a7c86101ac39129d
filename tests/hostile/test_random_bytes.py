"""Whatever bytes come, each part that reads them ends in an answer or in an error of its own, and within its bounds."""

from __future__ import annotations

import asyncio
import contextlib
import json
import zlib
from typing import Any

import redis.asyncio
import zstandard
from aiohttp.client_exceptions import ClientError
from aiohttp.http_exceptions import HttpProcessingError
from hypothesis import given, settings
from hypothesis import strategies as st
from scrapy import Request
from scrapy.http import Response
from scrapy.utils.test import get_crawler

from carscraper.api.body import DEEPEST, excess, is_deep, may_be_deep
from scrapy_durable.heads import LONGEST_HEAD, BoundedResponseHandler
from scrapy_durable.responses.decompression import DecompressionMiddleware
from scrapy_durable.responses.packing import DamagedError, Packer, largest_frame
from scrapy_durable.responses.redis import RedisResponseStore
from scrapy_durable.responses.values import _HEADER
from scrapy_durable.signatures import Signer

LIMIT = 10_000
FIXED = settings(max_examples=150, derandomize=True, database=None, deadline=None)
JSON = st.recursive(
    st.none() | st.integers() | st.sampled_from(["[", "{]", "}{", "ä", '"', "\\"]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("ab[{"), inner, max_size=2),
    max_leaves=20,
)
PACKED = st.one_of(
    st.binary(max_size=60),
    st.binary(max_size=60).map(zlib.compress),
    st.integers(0, 3 * LIMIT).map(lambda size: zstandard.compress(bytes(size))),
    st.builds(lambda data, at: zstandard.compress(data)[:at], st.binary(), st.integers(0, 60)),
)


@FIXED
@given(frame=PACKED)
def test_a_stored_frame_is_unpacked_within_its_bound_or_damaged(frame: bytes) -> None:
    with contextlib.suppress(DamagedError):
        assert len(Packer().unpack(frame, LIMIT)) <= LIMIT


@FIXED
@given(body=st.binary(max_size=400) | st.integers(0, LIMIT).map(bytes))
def test_a_packed_body_is_no_larger_than_a_frame_may_be(body: bytes) -> None:
    frame = Packer().pack(body)
    assert len(frame) <= largest_frame(len(body))
    assert Packer().unpack(frame, max(1, len(body))) == body


@FIXED
@given(head=st.binary(max_size=20) | st.just(_HEADER.pack(1, 200, 1.7e9, 10) + b"http://h/x"), frame=PACKED)
def test_a_value_in_redis_is_an_answer_or_damaged(head: bytes, frame: bytes) -> None:
    for signer in (None, Signer("k" * 32, "responses")):
        store = RedisResponseStore(
            redis.asyncio.Redis(), "{cars}", ttl=1, crawl_ttl=1, max_shared=LIMIT, signer=signer
        )
        damaged: list[str] = []
        found = list(store._unpacked(["a", "b", "c"], None, [head + frame, None, 10**9], LIMIT, damaged))
        assert [stored.key for stored in found] + damaged == ["a", "c"]
        assert all(len(stored.body) <= LIMIT for stored in found)
        assert not (signer and found)


@FIXED
@given(
    encodings=st.lists(
        st.sampled_from(["gzip", "br", "zstd", "deflate", "x-gzip", "identity", "", "ä"]), max_size=6
    ),
    body=PACKED,
    status=st.sampled_from([200, 204, 404, 500]),
)
def test_any_body_in_any_encodings_is_unpacked_or_flagged(
    encodings: list[str], body: bytes, status: int
) -> None:
    middleware = DecompressionMiddleware(crawler=get_crawler(settings_dict={"DOWNLOAD_MAXSIZE": LIMIT}))
    request = Request("http://h/")
    middleware.process_request(request)
    assert request.meta["download_maxsize"] == LIMIT
    response = Response("http://h/", status, {"Content-Encoding": ",".join(encodings)}, body)
    passed_on = middleware.process_response(request, response)
    assert isinstance(passed_on, Response)
    assert passed_on.body == body or len(passed_on.body) <= LIMIT
    assert not passed_on.flags or not passed_on.body


@FIXED
@given(value=JSON, levels=st.integers(0, 2 * DEEPEST))
def test_what_is_deep_is_never_taken_for_flat_by_its_brackets(value: Any, levels: int) -> None:
    for level in range(levels):
        value = [value] if level % 2 else {"a": value, "b": "]"}
    if is_deep(value):
        assert may_be_deep(json.dumps(value).encode())
        assert excess(value)
    assert is_deep(value) or levels <= DEEPEST


PIECES = st.lists(
    st.sampled_from(
        [
            b"HTTP/1.1 103 Early Hints\r\n\r\n",
            b"HTTP/1.1 103 Early Hints\r\nLink: <a>\r\n\r\n" * 40,
            b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n",
            b"abc",
            b"X-Odd: " + b"x" * 4000 + b"\r\n",
            b"HTTP/1.1 200 OK\r\n",
            b"\r\n",
        ]
    )
    | st.binary(max_size=30),
    max_size=12,
)


@FIXED
@given(pieces=PIECES, at_once=st.booleans())
def test_any_bytes_of_a_server_are_an_answer_or_end_the_connection(
    pieces: list[bytes], at_once: bool
) -> None:
    class Transport(asyncio.Transport):
        def __init__(self) -> None:
            super().__init__()
            self.ended = False

        def abort(self) -> None:
            self.ended = True

        close = abort

    async def whole() -> None:
        handler, transport = BoundedResponseHandler(asyncio.get_running_loop()), Transport()
        handler.transport = transport
        handler.set_response_params()
        received = 0
        for piece in [b"".join(pieces)] if at_once else pieces:
            if transport.ended:
                break
            handler.data_received(piece)
            received += len(piece)
        if transport.ended:
            assert isinstance(handler.exception(), HttpProcessingError | ClientError)
        elif not len(handler):
            assert received <= LONGEST_HEAD

    asyncio.run(whole())
