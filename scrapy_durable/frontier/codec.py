"""Requests serialized as versioned JSON, and read back; what would not come back the same is refused.

A document is an object with `v` (the version, 1), `url`, and those of the following that differ from their
default: `method`; `headers` (name to list of values, each character a byte); `body` (text, in UTF-8) or
`body64` (base64 of any other body); `cookies`; `meta`; `cb_kwargs`; `callback` and `errback` (names of
methods of the spider); `priority`; `dont_filter`; `flags`; `encoding`; and `tagged`, true when values in `meta`,
`cb_kwargs` and `cookies` are of types that JSON does not have (`tagged.py`). Nothing else is allowed in it. There
is no pickle: reading a document back runs no code but the constructor of `Request`, and what `tagged.py` names.

A spider that declares what it queues (`shapes.py`) has no tagged values and no subclasses of `str`: JSON as it is.

`JsonRequest` and `FormRequest` come back as the plain `Request` that they amount to.

For a request that is kept in the memory of a worker there is a marker: an object of `unserializable` (the worker's
name) and `url`.
"""

from __future__ import annotations

import math
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping
from types import MethodType
from typing import Any
from weakref import WeakKeyDictionary

import orjson
from scrapy import FormRequest, Request, Spider
from scrapy.http import JsonRequest

from scrapy_durable.exceptions import CodecError
from scrapy_durable.frontier.classes import SpiderClasses
from scrapy_durable.frontier.shapes import Shape, departure
from scrapy_durable.frontier.tagged import plain_str, tag, untag

VERSION = 1

LONGEST = 16 * 2**20
"""Bytes of a document: twice as many as an answer may have from which it was made."""
_LONGEST_REASON = 300
_REFUSED = b"\0"
"""What stands in front of a reason; a document never begins so."""
_MARKER = b'{"unserializable":'
PARENT_META = "durable_key"
"""Where a leased request has its own key in `meta`: what is copied from it is known by that."""
TRANSIENT_META = frozenset(("download_latency", PARENT_META))
"""What is noted in `meta` about one download, which says nothing about the next."""
_PROXY_META = ("proxy", "_auth_proxy", "_scheme_proxy", "_pool_proxy")
"""What middlewares note in `meta` about a proxy that they have chosen; they choose again the next time."""

_CLASSES = (Request, JsonRequest, FormRequest)
_STRICT = orjson.OPT_PASSTHROUGH_DATETIME | orjson.OPT_PASSTHROUGH_DATACLASS | orjson.OPT_PASSTHROUGH_SUBCLASS
_FIELDS: dict[str, tuple[type, ...]] = {
    "v": (int,),
    "url": (str,),
    "method": (str,),
    "headers": (dict,),
    "body": (str,),
    "body64": (str,),
    "cookies": (dict, list),
    "meta": (dict,),
    "cb_kwargs": (dict,),
    "callback": (str,),
    "errback": (str,),
    "priority": (int,),
    "dont_filter": (bool,),
    "flags": (list,),
    "encoding": (str,),
    "tagged": (bool,),
}
_TAGGED = ("meta", "cb_kwargs", "cookies")


def encode(request: Request, spider: Spider) -> bytes:
    """Serialize a request of this spider.

    Raises `CodecError` that names the field and the reason when it would not come back the same: a callback
    that is no method of the spider, or a value that neither JSON nor a tag has (an open file, a lambda, an object of a
    class that the spider cannot name); where the spider declares what it queues, any value that JSON does not have.
    """
    if type(request) not in _CLASSES:
        raise CodecError(f"class: {type(request).__qualname__} may hold more than a Request does")
    document: dict[str, Any] = {"v": VERSION, "url": request.url}
    if request.method != "GET":
        document["method"] = request.method
    if request.headers:
        document["headers"] = {
            name.decode("latin-1"): [value.decode("latin-1") for value in values]
            for name, values in request.headers.items()
        }
    if request.body:
        _write_body(document, request.body)
    if request.cookies:
        document["cookies"] = request.cookies
    if meta := {key: value for key, value in request.meta.items() if key not in TRANSIENT_META}:
        document["meta"] = meta
    if "proxy" in request.meta or b"Proxy-Authorization" in request.headers:
        _leave_out_proxy(document)
    if request.cb_kwargs:
        document["cb_kwargs"] = request.cb_kwargs
    if request.callback is not None:
        document["callback"] = _name_of("callback", request.callback, spider)
    if request.errback is not None:
        document["errback"] = _name_of("errback", request.errback, spider)
    if request.priority:
        document["priority"] = request.priority
    if request.dont_filter:
        document["dont_filter"] = True
    if request.flags:
        document["flags"] = request.flags
    if request.encoding != "utf-8":
        document["encoding"] = request.encoding
    return _dump(document) if is_declared(spider) else _dump_any(document, spider)


def is_declared(spider: Spider | type[Spider]) -> bool:
    """True when the spider declares what it queues: then nothing but plain JSON of that is serialized, or read."""
    return getattr(spider, "queued", None) is not None


def marker(request: Request, worker: str) -> bytes:
    """What stands in the frontier for a request that this worker has in its memory."""
    return orjson.dumps({"unserializable": worker, "url": request.url.encode(errors="replace").decode()})


def keeper(data: bytes) -> str | None:
    """The worker that a marker names; None for what is no marker."""
    if not data.startswith(_MARKER):
        return None
    try:
        worker = orjson.loads(data)["unserializable"]
    except (orjson.JSONDecodeError, TypeError, KeyError):
        return None
    return worker if isinstance(worker, str) else None


def fresh_copy(request: Request) -> Request:
    """A copy for another try, without what `encode` leaves out too."""
    copied = request.copy()
    left_out = set(TRANSIENT_META)
    if "proxy" in request.meta and ("_scheme_proxy" in request.meta or "_pool_proxy" in request.meta):
        left_out.update(_PROXY_META)
        copied.headers.pop("Proxy-Authorization", None)
    for name in left_out:
        copied.meta.pop(name, None)
    return copied


def decode(data: bytes, spider: Spider, *, own: bool = False) -> Request:
    """Read back what `encode` wrote, for the same spider; when that declares what it queues, only such.

    `own`: it has been in no hands but this process's, so nothing else than what `encode` wrote is looked for.
    Raises `CodecError` for anything else, and nothing but that; its text is short and can be printed.
    """
    try:
        return _decode(data, spider, own=own)
    except CodecError as error:
        raise CodecError(_printable(str(error))) from error


def url_of(data: bytes) -> str:
    """The address in a document, to be shown, whatever else is in it; empty when none can be made out."""
    try:
        url = orjson.loads(data)["url"]
    except (orjson.JSONDecodeError, TypeError, KeyError):
        return ""
    return _printable(url) if isinstance(url, str) else ""


def refused(why: str) -> bytes:
    """What stands for a document that was refused before it was read; `decode` gives the reason."""
    return _REFUSED + why.encode()


def _decode(data: bytes, spider: Spider, *, own: bool) -> Request:
    if len(data) > LONGEST:
        raise CodecError(f"{len(data)} bytes, more than {LONGEST}")
    if data.startswith(_REFUSED):
        raise CodecError(data.removeprefix(_REFUSED).decode(errors="replace"))
    try:
        document = orjson.loads(data)
    except orjson.JSONDecodeError as error:
        raise CodecError(f"not JSON: {error}") from error
    if not own:
        _check(document)
        shapes: Mapping[str, Shape] | None = getattr(spider, "queued", None)
        if shapes is not None and (problem := departure(document, shapes)):
            raise CodecError(problem)
    try:
        if "tagged" in document:
            _untag(document, spider)
        return Request(
            document["url"],
            method=document.get("method", "GET"),
            headers=_read_headers(document["headers"]) if "headers" in document else None,
            body=_read_body(document),
            cookies=document.get("cookies"),
            meta=document.get("meta"),
            cb_kwargs=document.get("cb_kwargs"),
            callback=_method("callback", document, spider),
            errback=_method("errback", document, spider),
            priority=document.get("priority", 0),
            dont_filter=document.get("dont_filter", False),
            flags=document.get("flags"),
            encoding=document.get("encoding", "utf-8"),
        )
    except (ValueError, TypeError, LookupError, ArithmeticError) as error:
        raise CodecError(f"no request can be made of it: {error}") from error


def _printable(said: str) -> str:
    """On one line, short, and nothing in it that a terminal acts on: it may hold what somebody else has written."""
    return "".join(
        letter if letter.isprintable() else ascii(letter)[1:-1] for letter in said[:_LONGEST_REASON]
    )


def _leave_out_proxy(document: dict[str, Any]) -> None:
    """Take off what a middleware has set for its proxy; raises `CodecError` for credentials that it has not."""
    meta, headers = document.get("meta", {}), document.get("headers", {})
    if "_scheme_proxy" in meta or "_pool_proxy" in meta:
        document["meta"] = {key: value for key, value in meta.items() if key not in _PROXY_META}
        headers.pop("Proxy-Authorization", None)
    elif "Proxy-Authorization" in headers or "@" in str(meta.get("proxy")):
        raise CodecError(
            "meta.proxy: credentials are not written down; set DURABLE_PROXIES or http_proxy instead"
        )


def _dump_any(document: dict[str, Any], spider: Spider) -> bytes:
    """As `_dump`; what JSON does not have is tagged, in a document that says so."""
    try:
        data = orjson.dumps(document, default=plain_str, option=_STRICT)
        if orjson.loads(data) == document:
            return data
    except TypeError:
        pass  # said of the first value that has no tag either
    classes = _classes_of(spider)
    tagged = {name: tag(document[name], classes, name) for name in _TAGGED if name in document}
    if "flags" in document:
        tagged["flags"] = [plain_str(flag) if isinstance(flag, str) else flag for flag in document["flags"]]
    return _dump({**document, **tagged, "tagged": True})


def _untag(document: dict[str, Any], spider: Spider) -> None:
    if not document["tagged"]:
        raise CodecError("tagged: false")
    classes = _classes_of(spider)
    for name in _TAGGED:
        if name in document:
            document[name] = untag(document[name], classes)
            if type(document[name]) not in _FIELDS[name]:
                raise CodecError(f"{name}: of type {type(document[name]).__name__}")


_classes: WeakKeyDictionary[type, SpiderClasses] = WeakKeyDictionary()


def _classes_of(spider: Spider) -> SpiderClasses:
    kind = type(spider)
    if kind not in _classes:
        _classes[kind] = SpiderClasses(kind)
    return _classes[kind]


def _dump(document: dict[str, Any]) -> bytes:
    """JSON that reads back as the same; one look at the result is cheaper than one at every value."""
    try:
        data = orjson.dumps(document, option=_STRICT)
    except TypeError as error:
        raise CodecError(_fault_in(document) or str(error)) from error
    if orjson.loads(data) != document:
        raise CodecError(_fault_in(document) or "it would not come back the same")
    return data


def _fault_in(document: dict[str, Any]) -> str | None:
    return next(
        (fault for field, value in document.items() if (fault := _fault(value, field)) is not None), None
    )


def _fault(value: Any, path: str, depth: int = 0) -> str | None:
    """Where in a value something is that JSON does not have, and what it is; None if it is nowhere."""
    kind = type(value)
    if depth > 250:
        return f"{path}: nested too deeply"
    if kind is dict:
        for key, inner in value.items():
            if type(key) is not str:
                return f"{path}: the key {key!r} is not a string"
            if (fault := _fault(inner, f"{path}.{key}", depth + 1)) is not None:
                return fault
    elif kind is list:
        for index, inner in enumerate(value):
            if (fault := _fault(inner, f"{path}[{index}]", depth + 1)) is not None:
                return fault
    elif kind is float:
        return None if math.isfinite(value) else f"{path}: JSON has no {value}"
    elif kind is int:
        return None if -(2**63) <= value < 2**64 else f"{path}: an integer beyond 64 bits"
    elif kind is str:
        return None if _is_unicode(value) else f"{path}: a string with half a surrogate pair"
    elif value is not None and kind is not bool:
        return f"{path}: JSON has no {kind.__name__}"
    return None


def _is_unicode(text: str) -> bool:
    return not any("\ud800" <= character <= "\udfff" for character in text)


def _write_body(document: dict[str, Any], body: bytes) -> None:
    try:
        document["body"] = body.decode()
    except UnicodeDecodeError:
        document["body64"] = b64encode(body).decode()


def _name_of(field: str, function: Callable[..., Any], spider: Spider) -> str:
    """A name under which the spider has this method; its own, if it has it under that."""
    name = getattr(function, "__name__", None)
    if name is not None and _is_method(name, spider) and getattr(spider, name) == function:
        return str(name)
    if isinstance(function, MethodType) and function.__self__ is spider:
        for name in dir(spider):
            if _is_method(name, spider) and getattr(spider, name) == function:
                return name
    raise CodecError(f"{field}: {function!r} is not a method of the spider, so it has no name to be found by")


def _is_method(name: str, spider: Spider) -> bool:
    """Whether a request may name this: a function of the spider's class that is not one of Python's own, or a method
    that the spider was given.
    """
    if name.startswith("__"):
        return False
    if callable(getattr(type(spider), name, None)):
        return True
    own = vars(spider).get(name)
    return isinstance(own, MethodType) and own.__self__ is spider


def _check(document: Any) -> None:
    """Raise `CodecError` unless the document has the fields of this version, each of its type."""
    if type(document) is not dict:
        raise CodecError("not an object")
    version = document.get("v")
    if type(version) is not int or version != VERSION:
        raise CodecError(f"v: version {version!r}, and this release knows only {VERSION}")
    if "url" not in document:
        raise CodecError("url: missing")
    if "body" in document and "body64" in document:
        raise CodecError("body64: there is a body already")
    for field, value in document.items():
        expected = _FIELDS.get(field)
        if expected is None:
            raise CodecError(f"{field}: not a field of version {VERSION}")
        if type(value) not in expected:
            raise CodecError(f"{field}: of type {type(value).__name__}")
    if not all(type(flag) is str for flag in document.get("flags", ())):
        raise CodecError("flags: one is not a string")


def _read_headers(headers: dict[str, Any]) -> dict[bytes, list[bytes]]:
    for name, values in headers.items():
        if type(values) is not list or not all(type(value) is str for value in values):
            raise CodecError(f"headers.{name}: not a list of strings")
    return {
        name.encode("latin-1"): [value.encode("latin-1") for value in values]
        for name, values in headers.items()
    }


def _read_body(document: dict[str, Any]) -> bytes:
    if "body64" in document:
        return b64decode(document["body64"], validate=True)
    body: str = document.get("body", "")
    return body.encode()


def _method(field: str, document: dict[str, Any], spider: Spider) -> Callable[..., Any] | None:
    name = document.get(field)
    if name is None:
        return None
    if not _is_method(name, spider):
        raise CodecError(f"{field}: the spider has no method {name!r}")
    method: Callable[..., Any] = getattr(spider, name)
    return method
