"""Specifications that a crawl has read already: neither looked up nor read again for the listings that come after."""

from __future__ import annotations

from typing import NamedTuple, Self

from carscraper.api.deviations import Deviations
from carscraper.catalogue.pages import read_specs
from carscraper.items import Specification
from carscraper.weighed import WeighedCache

MOST = 64 * 1024**2
"""Bytes of memory, about: some 20,000 specifications, more than a catalogue has."""
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


class KnownSpecs:
    """Those that were asked for last, by their key in the response store, up to a weight.

    A key may be answered anew, by another worker too: until that one is too old, the one that is known is as good, as
    it is in the response store itself.
    """

    def __init__(self, most: int = MOST) -> None:
        self._kept: WeighedCache[str, KnownSpec] = WeighedCache(most)

    def get(self, key: str, since: float) -> KnownSpec | None:
        """The specification under that key, when it was fetched later than that."""
        found = self._kept.get(key)
        return found if found and found.fetched_at > since else None

    def put(self, key: str, known: KnownSpec) -> None:
        """Keep it in the place of what was known."""
        self._kept.put(key, known, weight(known))


def weight(known: KnownSpec) -> int:
    """Bytes of memory, about and rather too many, that it takes."""
    return _EACH + len(known.specification.json) + _DEVIATION * len(known.deviations)
