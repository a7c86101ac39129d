"""What tests of the crawl share: one stand-in per module, and crawls of it by the real command line."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import pytest

from carscraper.demo.catalogue import Catalogue
from tests.crawling import Crawl, crawl
from tests.standin import StandIn

LISTINGS = 250
SEED = 2
SECONDS = 120
"""A crawl of such a catalogue takes two or three; one that takes this long is killed and its log shown."""


class Start(Protocol):
    """Starts a crawl; see `tests.crawling.crawl` for the arguments."""

    def __call__(self, *arguments: str, output_dir: Path | None = None, **options: Any) -> Crawl: ...


@dataclass
class Site:
    """The module's stand-in, and the catalogue that it was made from, to say what a crawl has to find."""

    standin: StandIn
    catalogue: Catalogue = field(default_factory=lambda: Catalogue(LISTINGS, SEED))

    @property
    def url(self) -> str:
        return self.standin.url

    def attributes(self, listing_id: str) -> dict[str, Any]:
        """What the API says of one listing."""
        listing = self.catalogue.listing(listing_id)
        assert listing is not None
        attributes: dict[str, Any] = listing["attributes"]
        return attributes

    def groups(self, listing_id: str) -> list[dict[str, Any]]:
        """The specification of a listing's car; empty where the API has none (404) or an empty one."""
        attributes = self.attributes(listing_id)
        document = self.catalogue.spec(attributes["code"], attributes["year"])
        groups: list[dict[str, Any]] = document["data"][0] if document and document["data"] else []
        return groups

    def listings_of(self, code: str, year: int) -> list[str]:
        """The ids of the listings that share a specification."""
        wanted = code, year
        return [
            listing_id
            for listing_id in self.catalogue.ids
            if (self.attributes(listing_id)["code"], self.attributes(listing_id)["year"]) == wanted
        ]


@pytest.fixture(scope="module")
def shared_site() -> Iterator[Site]:
    with StandIn(LISTINGS, seed=SEED) as standin:
        yield Site(standin)


@pytest.fixture
def site(shared_site: Site) -> Site:
    """The module's stand-in without faults and with an empty journal. Its catalogue is never changed."""
    shared_site.standin.faults([])
    shared_site.standin.reset_journal()
    return shared_site


@pytest.fixture
def start(site: Site, tmp_path: Path) -> Iterator[Start]:
    """Starts crawls of `site` into `tmp_path / "data"`; those that still run at the end are killed."""
    with ExitStack() as running:

        def start_crawl(*arguments: str, output_dir: Path | None = None, **options: Any) -> Crawl:
            api_url = options.pop("api_url", site.url)
            return running.enter_context(
                crawl(api_url, output_dir or tmp_path / "data", *arguments, **options)
            )

        yield start_crawl
