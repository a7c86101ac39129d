"""The key by which the frontier knows a request: its fingerprint or, with `dont_filter`, its place below its parent.

A request with `dont_filter` may be there many times, and yet is done once when its parent is done twice. Its key is
made of its parent's key, its fingerprint, the name of its callback, and how many of the same its parent has had before
in this attempt. Who the parent is, and what holds when nobody knows, is decided in docs/decisions/0033.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from hashlib import blake2b
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary, WeakValueDictionary, ref

from scrapy_durable.frontier.codec import PARENT_META

if TYPE_CHECKING:
    from scrapy import Request

    from scrapy_durable.frontier.contract import Key


class _Parent:
    """One attempt at a request, or at `start()`, and how many children of each kind it has had."""

    __slots__ = ("__weakref__", "key", "places", "request")

    def __init__(self, key: bytes, request: Callable[[], Request | None] = lambda: None) -> None:
        """`request` gives that of the attempt, as long as somebody has it."""
        self.key = key
        self.request = request
        self.places: Counter[bytes] = Counter()

    def next(self, kind: bytes) -> Key:
        """The key of its next child of this kind."""
        place = self.places[kind]
        self.places[kind] += 1
        return _key(self.key, kind, b"%d" % place)


class Keys:
    """Of one worker. It learns of parents when requests are leased, and of children when they are yielded."""

    def __init__(self, fingerprint: Callable[[Request], bytes], worker: str, *, derive: bool) -> None:
        """With `derive` off, a request with `dont_filter` has a key that nothing else has: nobody's parent is known."""
        self._fingerprint = fingerprint
        self._nobody = _Parent(b"worker " + worker.encode())
        self._derive = derive
        self._start: _Parent | None = None
        self._attempts: WeakKeyDictionary[Request, _Parent] = WeakKeyDictionary()
        self._by_key: WeakValueDictionary[Key, _Parent] = WeakValueDictionary()
        self._parents: WeakKeyDictionary[Request, _Parent] = WeakKeyDictionary()

    def begin(self, crawl_id: str) -> Key:
        """The crawl has this id. Returns the key of its start."""
        key = _key(b"start", crawl_id.encode())
        if self._derive:
            self._start = _Parent(_bytes(key))
        return key

    def of(self, request: Request) -> Key:
        """The key of a request that is to be queued; of one with `dont_filter` another one at each call."""
        fingerprint = self._fingerprint(request)
        if not request.dont_filter:
            return int.from_bytes(fingerprint[:8], signed=True)
        callback = getattr(request.callback, "__name__", "parse")
        return self._parent(request).next(fingerprint + callback.encode())

    def leased(self, request: Request, key: Key) -> None:
        """The request is leased: it may be a parent from now on."""
        if self._derive:
            request.meta[PARENT_META] = key
            self._attempts[request] = self._by_key[key] = _Parent(_bytes(key), ref(request))

    def yielded(self, child: Request, parent: Request) -> None:
        """What the callback of `parent` has yielded."""
        if child.dont_filter and (attempt := self._attempt(parent)) is not None:
            self._parents[child] = attempt

    def started(self, child: Request) -> None:
        """What `start()` has yielded."""
        if child.dont_filter and self._start is not None:
            self._parents[child] = self._start

    def pushed(self, children: Iterable[Request], push: bytes) -> None:
        """What was made of one push, which has this id."""
        parent = _Parent(b"push " + push)
        for child in children:
            if child.dont_filter:
                self._parents[child] = parent

    def copied_from(self, request: Request) -> Request | None:
        """The leased request of which this one is a copy, such as a redirect; None when none is known."""
        key = request.meta.get(PARENT_META) if self._derive else None
        attempt = self._by_key.get(key) if type(key) is int else None
        return attempt.request() if attempt is not None else None

    def _parent(self, request: Request) -> _Parent:
        return self._parents.pop(request, None) or self._attempt(request) or self._nobody

    def _attempt(self, request: Request) -> _Parent | None:
        """The attempt that this request is, or that it was copied from."""
        if not self._derive:
            return None
        key = request.meta.get(PARENT_META)
        return self._attempts.get(request) or (self._by_key.get(key) if type(key) is int else None)


def _key(*parts: bytes) -> Key:
    digest = blake2b(digest_size=8)
    for part in parts:
        digest.update(b"%d:" % len(part) + part)
    return int.from_bytes(digest.digest(), signed=True)


def _bytes(key: Key) -> bytes:
    return key.to_bytes(8, signed=True)
