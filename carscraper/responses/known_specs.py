"""Specifications that a crawl has read already: neither looked up nor read again for the listings that come after."""

from __future__ import annotations

from collections.abc import Iterable
from struct import Struct
from typing import NamedTuple, Self

import orjson

from carscraper.api.deviations import Deviations
from carscraper.catalogue.pages import read_specs
from carscraper.exceptions import ApiError
from carscraper.items import Specification
from carscraper.weighed import WeighedCache
from scrapy_durable.responses.contract import ResponseStore, StoredResponse

MOST = 48 * 1024**2
"""Bytes of memory, about: some 15,000 specifications, more than a catalogue has. (What databases have made of one, some
700 bytes, is kept with it and not counted.)
"""
_VERSION = 1
"""Of how a specification is read: one more when an answer is to be read in another way than before."""
_DERIVED = Struct(">BIII")
"""Version, where the JSON begins and ends in the body (0, 0: it stands at the end here), bytes of the deviations as
JSON, which follow.
"""
_EACH = 600
"""Bytes, about, that one takes beside its JSON: its key, objects, a place among the others."""
_DEVIATION = 2_000
"""Bytes, about and rather too many, that a path takes with its example."""


class KnownSpec(NamedTuple):
    """A specification as it was read once."""

    specification: Specification
    deviations: Deviations
    """Where it departs from the known shape."""
    fetched_at: float
    """Seconds since the epoch, by the clock of the crawl."""

    @classmethod
    def read(cls, status: int, body: bytes, fetched_at: float) -> Self:
        """What an answer says. Raises `ApiError`."""
        return cls(*read_specs(status, body), fetched_at)

    @classmethod
    def of(cls, stored: StoredResponse) -> Self | None:
        """What was made of a stored answer, which is not parsed; None when that was by another release, or never."""
        derived = stored.derived
        if len(derived) < _DERIVED.size:
            return None
        version, start, end, size = _DERIVED.unpack_from(derived)
        if version != _VERSION:
            return None
        rest = _DERIVED.size + size
        json = stored.body[start:end] if end else derived[rest:]
        deviations = orjson.loads(derived[_DERIVED.size : rest]) if size else {}
        return cls(Specification.of_json(json), deviations, stored.fetched_at)

    def derived(self, body: bytes) -> bytes:
        """What `of` needs to make this again: mostly, where in the body of the answer the JSON stands as it is."""
        json = self.specification.json
        start = body.find(json)
        end, rest = (start + len(json), b"") if start >= 0 else (0, json)
        deviations = orjson.dumps(self.deviations) if self.deviations else b""
        return _DERIVED.pack(_VERSION, max(start, 0), end, len(deviations)) + deviations + rest


class KnownSpecs:
    """Those that were asked for last, by their key in the response store, up to a weight.

    A key may be answered anew, by another worker too: until that one is too old, the one that is known is as good, as
    it is in the response store itself.
    """

    def __init__(self, most: int = MOST) -> None:
        self._kept: WeighedCache[str, KnownSpec] = WeighedCache(most)

    def clear(self) -> None:
        """Keep none any more: they are looked up again when they are needed."""
        self._kept.clear()

    def get(self, key: str, since: float) -> KnownSpec | None:
        """The specification under that key, when it was fetched later than that."""
        found = self._kept.get(key)
        return found if found and found.fetched_at > since else None

    def known(self, keys: Iterable[str], since: float) -> dict[str, KnownSpec]:
        """Those of these that were fetched later than that."""
        return {key: found for key in keys if (found := self.get(key, since)) is not None}

    async def look_up(
        self, store: ResponseStore, keys: Iterable[str], now: float, max_age: float
    ) -> tuple[dict[str, KnownSpec], int]:
        """Those that are known, or stored and not too old, and how many are stored and cannot be read. An answer is let
        go as soon as it is read: none is needed for long.
        """
        wanted = dict.fromkeys(keys)
        found = self.known(wanted, now - max_age)
        unknown = [key for key in wanted if key not in found]
        stored = await store.get_many(unknown, max_age) if unknown else {}
        made, unreadable = dict[str, tuple[float, bytes]](), 0
        while stored:
            key, answer = stored.popitem()
            known = KnownSpec.of(answer)
            if known is None:
                try:
                    known = KnownSpec.read(answer.status, answer.body, answer.fetched_at)
                except ApiError:
                    unreadable += 1
                    continue
                if answer.status == 200:
                    made[key] = answer.fetched_at, known.derived(answer.body)
            found[key] = known
            self.put(key, known)
        if made:
            await store.derive(made)
        return found, unreadable

    def put(self, key: str, known: KnownSpec) -> None:
        """Keep it in the place of what was known."""
        self._kept.put(key, known, weight(known))


def weight(known: KnownSpec) -> int:
    """Bytes of memory, about and rather too many, that it takes."""
    return _EACH + len(known.specification.json) + _DEVIATION * len(known.deviations)
