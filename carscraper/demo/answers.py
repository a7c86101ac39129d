"""Answers as bytes: the right ones, and the wrong ones that a fault asks for."""

from __future__ import annotations

import asyncio
import gzip
import json
import socket
import struct
import zlib
from collections.abc import Mapping
from functools import lru_cache, reduce
from typing import Final, NoReturn, TypeVar

import brotli  # type: ignore[import-untyped]
import orjson
import zstandard
from aiohttp import web

from carscraper.demo.faults import Fault, edit, shape

R = TypeVar("R", bound=web.StreamResponse)

JSON_TYPE: Final = "application/json"
HTML_PAGE: Final = (
    "<!DOCTYPE html><html><head><title>Cars for sale</title></head><body><h1>Maintenance</h1></body></html>"
)
CHALLENGE_PAGE: Final = (
    '<!DOCTYPE html><html lang="en-US"><head><title>Just a moment...</title>'
    '<meta http-equiv="refresh" content="360"></head><body><noscript>Enable JavaScript and cookies'
    " to continue</noscript></body></html>"
)
_PIECE: Final = 1 << 16


class CutOffError(ConnectionError):
    """Raised when the connection was ended on purpose; `status` was sent before, None when nothing was."""

    def __init__(self, status: int | None) -> None:
        super().__init__("the connection was ended on purpose")
        self.status = status


async def send(request: web.BaseRequest, status: int, document: object) -> web.Response:
    """Answer `document` as JSON."""
    body = orjson.dumps(document)
    return await finish(request, web.Response(status=status, body=body, content_type=JSON_TYPE))


async def finish(request: web.BaseRequest, response: R) -> R:
    """Send all of `response`, so that it has left when this returns."""
    await response.prepare(request)
    await response.write_eof()
    return response


async def send_wrongly(
    request: web.BaseRequest, fault: Fault, status: int, document: object
) -> web.StreamResponse:
    """Answer what `fault` makes of the right answer.

    Raises CutOffError when the connection was ended on purpose, and never returns from a `hang`.
    """
    options = fault.options
    if fault.kind == "delay":
        await asyncio.sleep(options["seconds"])
        return await send(request, status, document)
    if fault.kind == "edit":
        return await send(request, status, edit(document, options["path"], options["do"], options["to"]))
    if fault.kind == "shape":
        shaped = shape(document, options["sets"], options["share"], whole=options["whole"])
        return await send(request, status, shaped)
    if fault.kind == "hang":
        await asyncio.Event().wait()
    if fault.kind == "reset":
        _reset(request)
    if fault.kind == "huge":
        return await _huge(request, options["bytes"], sized=options["sized"])
    if fault.kind == "bomb":
        packed = await asyncio.to_thread(_bomb, options["encoding"], options["bytes"])
        headers = {"Content-Encoding": options["encoding"], "Content-Type": JSON_TYPE}
        return await finish(request, web.Response(body=packed, headers=headers))
    body = orjson.dumps(document)
    if fault.kind == "truncate":
        _truncate(request, options["way"], status, body)
    if fault.kind == "drip":
        return await _drip(request, status, body, options["bytes"] or 1, options["seconds"])
    return await finish(request, _whole(request, fault, status, body))


def _whole(request: web.BaseRequest, fault: Fault, status: int, body: bytes) -> web.Response:
    """The wrong answers that differ in their content only."""
    options = fault.options
    if fault.kind == "status":
        headers = {"Retry-After": options["retry_after"]} if options["retry_after"] else {}
        return web.Response(status=options["status"], text=options["body"], headers=headers)
    if fault.kind == "redirect":
        headers = {"Location": options["location"] or request.raw_path}
        return web.Response(status=options["status"], headers=headers)
    if fault.kind == "html":
        return web.Response(status=options["status"], text=HTML_PAGE, content_type="text/html")
    if fault.kind == "challenge":
        return web.Response(status=options["status"], text=CHALLENGE_PAGE, content_type="text/html")
    if fault.kind == "charset":
        body = body.decode().encode(options["encoding"])
        return web.Response(status=status, body=body, content_type=JSON_TYPE, charset=options["declared"])
    bodies = {"empty": b"", "bad_json": body[:-1] + b",", "bom": b"\xef\xbb\xbf" + body}
    return web.Response(status=status, body=bodies[fault.kind], content_type=JSON_TYPE)


def _transport(request: web.BaseRequest) -> asyncio.Transport:
    if request.transport is None:
        raise CutOffError(None)
    return request.transport


def _reset(request: web.BaseRequest) -> NoReturn:
    """Close with no time to linger, which sends RST instead of FIN."""
    transport = _transport(request)
    connection = transport.get_extra_info("socket")
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    transport.abort()
    raise CutOffError(None)


def _truncate(request: web.BaseRequest, way: str, status: int, body: bytes) -> NoReturn:
    """Write the head and half of the body by hand, then close in good order (FIN)."""
    half = body[: len(body) // 2]
    headers = {"Content-Type": JSON_TYPE}
    if way == "length":
        headers["Content-Length"] = str(len(body))
    elif way == "chunked":
        headers["Transfer-Encoding"] = "chunked"
        half = b"%x\r\n%b\r\n" % (len(half), half)
    elif way == "gzip":
        packed = gzip.compress(body)
        half = packed[: len(packed) // 2]
        headers |= {"Content-Encoding": "gzip", "Content-Length": str(len(half))}
    transport = _transport(request)
    transport.write(_head(status, headers | {"Connection": "close"}) + half)
    transport.close()
    raise CutOffError(status)


def _head(status: int, headers: Mapping[str, str]) -> bytes:
    lines = [f"HTTP/1.1 {status} Cut", *(f"{name}: {value}" for name, value in headers.items())]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


async def _drip(
    request: web.BaseRequest, status: int, body: bytes, size: int, seconds: float
) -> web.StreamResponse:
    response = web.StreamResponse(status=status, headers={"Content-Type": JSON_TYPE})
    response.content_length = len(body)
    await response.prepare(request)
    for start in range(0, len(body), size):
        await response.write(body[start : start + size])
        await asyncio.sleep(seconds)
    await response.write_eof()
    return response


async def _huge(request: web.BaseRequest, size: int, *, sized: bool) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Type": JSON_TYPE})
    if sized:
        response.content_length = size
    await response.prepare(request)
    piece = json.dumps("x" * (_PIECE - 3)).encode() + b","
    for start in range(0, size, _PIECE):
        await response.write(piece[: size - start])
    await response.write_eof()
    return response


@lru_cache(maxsize=4)
def _bomb(encoding: str, size: int) -> bytes:
    """`size` zero bytes, compressed a piece at a time; a second for a gigabyte, remembered afterwards."""
    zeros = bytes(1 << 20)
    pieces = [zeros] * (size >> 20) + [zeros[: size & 0xFFFFF]]
    if encoding == "gzip":
        return _gzip_bomb(pieces)
    if encoding == "br":
        squeezer = brotli.Compressor(quality=1)
        return b"".join([*map(squeezer.process, pieces), squeezer.finish()])
    compressor = zstandard.ZstdCompressor(level=3).compressobj(size=size)
    return b"".join([*map(compressor.compress, pieces), compressor.flush()])


def _gzip_bomb(pieces: list[bytes]) -> bytes:
    """The pieces as one gzip member. All but the last are alike, so their blocks of deflate are, too, once each piece
    starts with an empty window and ends on a byte.
    """
    first = zlib.compressobj(level=9, wbits=-15)
    block = first.compress(pieces[0]) + first.flush(zlib.Z_FULL_FLUSH)
    last = zlib.compressobj(level=9, wbits=-15)
    end = last.compress(pieces[-1]) + last.flush()
    checksum = reduce(lambda so_far, piece: zlib.crc32(piece, so_far), pieces, 0)
    head = b"\x1f\x8b\x08" + bytes(6) + b"\xff"
    tail = struct.pack("<II", checksum, sum(map(len, pieces)) & 0xFFFFFFFF)
    return head + block * (len(pieces) - 1) + end + tail
