"""The layout of a database in numbered steps; those that are missing are done when it is opened."""

from __future__ import annotations

from carscraper.exceptions import StoreRefused


def missing_steps(found: object, known: int, target: str) -> range:
    """The steps from the version that was found, 0 for none, to that of this release.

    Raises `StoreRefused` for a later version, or for what is none.
    """
    if type(found) is not int or not 0 <= found <= known:
        raise StoreRefused(f"{target}: its layout is version {found!r:.20}, and this release knows {known}")
    return range(found + 1, known + 1)
