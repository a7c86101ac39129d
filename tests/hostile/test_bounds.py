"""Whatever a site or a neighbour on Redis sends: little memory, little disk, and it costs itself only.

Every crawl here is a process of its own, whose memory is read from outside; the site is a raw one.
"""

from __future__ import annotations

import asyncio
import gzip
import json
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import zstandard

from scrapy_durable.responses.namespace import _BEHIND, NamespaceStore
from scrapy_durable.responses.sqlite import SqliteResponseStore
from scrapy_durable.responses.values import _HEADER
from tests.crawling import Crawl, crawl, records
from tests.hostile.conftest import QUICK
from tests.raw_site import USUAL_SPEC, RawCatalogue, RawSite, http, spec
from tests.redis_server import RedisServer
from tests.watching import disk_usage, wait_and_watch

SECONDS = 300
"""No crawl here takes longer; one that does is killed and its log shown."""
MEMORY = 250_000_000
FEW_TRIES = {**QUICK, "RETRY_TIMES": 1, "CARS_PAGE_SIZE": 1000}


def watched(
    catalogue: RawCatalogue,
    output_dir: Path,
    *,
    settings: Mapping[str, object] | None = None,
    redis_url: str | None = None,
    prepare: Callable[[str], None] = lambda url: None,
) -> tuple[int, Crawl, RawSite]:
    """Crawl the catalogue; the exit status, once the memory was found to be little. `prepare` is called before, with
    the site's address.
    """
    asked = {**FEW_TRIES, **(settings or {})}
    with RawSite(catalogue) as site:
        prepare(site.url)
        with crawl(site.url, output_dir, settings=asked, redis_url=redis_url) as run:
            status, memory = wait_and_watch(run, SECONDS)
    assert memory < MEMORY, run.log
    assert "Traceback" not in run.log
    return status, run, site


def with_specs(run: Crawl) -> set[str]:
    """The listings that a crawl has published with their specification."""
    [path] = [
        path for name in ("cars.incomplete.json", "cars.json") if (path := run.output_dir / name).exists()
    ][:1]
    return {record["id"] for record in json.loads(path.read_bytes()) if record["car_specs"] is not None}


def reasons(run: Crawl) -> dict[str, str]:
    """Listing to the reason for which the request was given up that it waited for."""
    return {
        listing: letter["reason"] for letter in run.run_json()["given_up"] for listing in letter["listings"]
    }


def gzipped(body: bytes) -> bytes:
    return http(gzip.compress(body), "Content-Encoding: gzip")


def test_a_specification_of_8_mb_that_1000_listings_share_costs_itself(tmp_path: Path) -> None:
    catalogue = RawCatalogue(1000, shared=True)
    other = catalogue.listings[500]
    other["attributes"]["code"] = "another="
    catalogue.specs[catalogue.spec_path(0)] = gzipped(spec(8_000_000))
    status, run, _ = watched(catalogue, tmp_path)
    assert status == 1
    assert with_specs(run) == {other["id"]}
    assert reasons(run).keys() == set(catalogue.ids) - {other["id"]}
    assert all("too_large (262144 bytes at most)" in reason for reason in reasons(run).values())
    assert disk_usage(tmp_path) < 20_000_000


@pytest.mark.parametrize("way", ["packed", "plain", "plain, not told"])
def test_60_specifications_of_8_mb_cost_themselves(tmp_path: Path, way: str) -> None:
    catalogue = RawCatalogue(70)
    large = spec(8_260_000)
    answers: dict[str, Any] = {
        "packed": gzipped(large),
        "plain": http(large),
        "plain, not told": [b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n", large],
    }
    for number in range(60):
        catalogue.specs[catalogue.spec_path(number)] = answers[way]
    status, run, _ = watched(catalogue, tmp_path)
    assert status == 1
    assert with_specs(run) == set(catalogue.ids[60:])
    assert reasons(run).keys() == set(catalogue.ids[:60])
    assert all("262144" in reason for reason in reasons(run).values())
    assert disk_usage(tmp_path) < 5_000_000


def test_specifications_as_large_as_they_may_be_are_kept_within_the_same_memory(tmp_path: Path) -> None:
    """The counterpart: what is within the bounds is an answer like any other."""
    catalogue = RawCatalogue(300)
    for number in range(300):
        catalogue.listings[number]["attributes"]["code"] = f"code{number % 100}="
    for number in range(100):
        catalogue.specs[catalogue.spec_path(number)] = gzipped(spec(250_000, number))
    status, run, _ = watched(catalogue, tmp_path)
    assert status == 0
    assert with_specs(run) == set(catalogue.ids)
    assert disk_usage(tmp_path) < 300 * 262_144 * 2 + 5_000_000


def test_a_page_that_is_too_large_costs_itself(tmp_path: Path) -> None:
    catalogue = RawCatalogue(200)
    catalogue.pages[50] = lambda body: gzipped(body + b" " * 4_200_000)
    status, run, _ = watched(catalogue, tmp_path, settings={"CARS_PAGE_SIZE": 50})
    assert status == 1
    assert with_specs(run) == set(catalogue.ids) - set(catalogue.ids[50:100])
    [letter] = run.run_json()["given_up"]
    assert "too_large (4194304 bytes at most)" in letter["reason"]


def test_a_page_of_two_million_entries_costs_itself(tmp_path: Path) -> None:
    def crowded(body: bytes) -> bytes:
        page = json.dumps({**json.loads(body), "data": []}).encode()
        return gzipped(page.replace(b'"data": []', b'"data": [' + b"0," * 2_000_000 + b"0]"))

    catalogue = RawCatalogue(40)
    catalogue.pages[20] = crowded
    status, run, _ = watched(catalogue, tmp_path, settings={"CARS_PAGE_SIZE": 20})
    assert status == 1
    assert with_specs(run) == set(catalogue.ids[:20])
    [letter] = run.run_json()["given_up"]
    assert "data: holds 2000001 listings, where 2000 are enough" in letter["reason"]
    assert disk_usage(tmp_path) < 2_000_000


def test_early_hints_without_end_on_four_connections_cost_those_four(tmp_path: Path) -> None:
    def endless() -> Iterator[bytes]:
        while True:
            yield b"HTTP/1.1 103 Early Hints\r\nLink: </style.css>; rel=preload\r\n\r\n" * 2000

    catalogue = RawCatalogue(20)
    for number in range(4):
        catalogue.specs[catalogue.spec_path(number)] = endless()
    status, run, _ = watched(catalogue, tmp_path, settings={"CONCURRENT_REQUESTS_PER_DOMAIN": 4})
    assert status == 1
    assert with_specs(run) == set(catalogue.ids[4:])
    assert reasons(run).keys() == set(catalogue.ids[:4])
    assert all("more than 16 informational responses" in reason for reason in reasons(run).values())


def test_a_few_early_hints_are_read_over(tmp_path: Path) -> None:
    """The counterpart: they are part of HTTP."""
    catalogue = RawCatalogue(5)
    hint = b"HTTP/1.1 103 Early Hints\r\nLink: </style.css>; rel=preload\r\n\r\n"
    catalogue.specs[catalogue.spec_path(0)] = [hint * 8, hint * 8 + http(USUAL_SPEC)]
    catalogue.pages[0] = lambda body: [hint, http(body)]
    status, run, _ = watched(catalogue, tmp_path)
    assert status == 0, run.log
    assert with_specs(run) == set(catalogue.ids)


def test_a_head_without_end_costs_itself(tmp_path: Path) -> None:
    def endless() -> Iterator[bytes]:
        yield b"HTTP/1.1 200 OK\r\n"
        while True:
            yield b"X-Padding: " + b"x" * 4000 + b"\r\n"

    catalogue = RawCatalogue(10)
    catalogue.specs[catalogue.spec_path(0)] = endless()
    status, run, _ = watched(catalogue, tmp_path)
    assert status == 1
    assert with_specs(run) == set(catalogue.ids[1:])
    assert "not HTTP" in reasons(run)[catalogue.ids[0]]


def test_garbage_is_not_repeated_in_full(tmp_path: Path) -> None:
    catalogue = RawCatalogue(10)
    catalogue.specs[catalogue.spec_path(0)] = [b"\x01garbage" * 30_000]
    status, run, _ = watched(catalogue, tmp_path)
    assert status == 1
    assert with_specs(run) == set(catalogue.ids[1:])
    assert "not HTTP: 'Bad status line" in reasons(run)[catalogue.ids[0]].replace('"', "'")
    assert len(reasons(run)[catalogue.ids[0]]) < 2000
    assert len(run.log) < 50_000


def packed(body: bytes, times: int) -> bytes:
    for _ in range(times):
        body = gzip.compress(body)
    return http(body, f"Content-Encoding: {','.join(['gzip'] * times)}")


def test_400_layers_of_gzip_are_refused_without_unpacking_any(tmp_path: Path) -> None:
    catalogue = RawCatalogue(10)
    catalogue.specs[catalogue.spec_path(0)] = packed(USUAL_SPEC, 400)
    catalogue.specs[catalogue.spec_path(1)] = packed(USUAL_SPEC, 4)
    catalogue.specs[catalogue.spec_path(2)] = packed(USUAL_SPEC, 3)
    status, run, _ = watched(catalogue, tmp_path)
    assert status == 1
    assert with_specs(run) == set(catalogue.ids[2:])
    assert reasons(run).keys() == set(catalogue.ids[:2])
    assert all("the body is encoded_too_often" in reason for reason in reasons(run).values())
    assert "400 encodings around one body" in run.log


RULES = b"User-agent: *\n" + b"Disallow: /fw/*/nowhere/*/0123\n" * 16_000
"""As long as 480 KB."""


@pytest.mark.parametrize("told", [True, False])
def test_a_robots_txt_of_7_mb_counts_as_far_as_500_kib(tmp_path: Path, told: bool) -> None:
    """What stands behind them is not read, so it forbids nothing."""
    catalogue = RawCatalogue(50)
    body = RULES + b"# padding\n" * 3000 + b"Disallow: /nowhere\n" * 370_000 + b"Disallow: /\n"
    catalogue.robots = http(body) if told else [b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n", body]
    status, run, site = watched(catalogue, tmp_path)
    assert status == 0, run.log
    assert with_specs(run) == set(catalogue.ids)
    assert "robots.txt is longer than 512000 bytes" in run.log
    assert site.targets.count("/robots.txt") == 1


@pytest.mark.parametrize("way", ["plain", "packed"])
def test_the_first_500_kib_of_a_robots_txt_hold(tmp_path: Path, way: str) -> None:
    """The counterpart."""
    catalogue = RawCatalogue(5)
    body = RULES + b"Disallow: /fw/\n" + b"Disallow: /nowhere\n" * 370_000
    catalogue.robots = http(body) if way == "plain" else gzipped(body)
    status, run, site = watched(catalogue, tmp_path)
    assert status == 1
    assert site.targets == ["/robots.txt"]
    assert "Forbidden by robots.txt" in run.log


def bomb(size: int) -> bytes:
    """A frame that says truly that it unpacks to so many bytes, all of them an answer."""
    return zstandard.compress(b'{"data": [[]]}'.ljust(size))


def test_answers_in_redis_that_unpack_to_64_mb_each_count_as_missing(tmp_path: Path) -> None:
    catalogue = RawCatalogue(100)
    frame, url = bomb(2**26), b"http://h/x"
    value = _HEADER.pack(1, 200, time.time(), len(url)) + url + frame
    assert len(value) * 100 < 500_000

    def fill(site_url: str) -> None:
        with server.client() as client:
            for number in range(100):
                name = f"{{cars}}:response:{site_url}{_BEHIND}code{number}=/2017"
                client.set(name, value if number else b"x" * 100_000_000, ex=30 * 86_400)

    with RedisServer() as server:
        status, run, site = watched(catalogue, tmp_path, redis_url=server.url, prepare=fill)
    assert status == 0, run.log
    assert with_specs(run) == set(catalogue.ids)
    assert len({target for target in site.targets if "/specs/" in target}) == 100
    assert "A stored answer is damaged and will be fetched again" in run.log


def test_answers_in_the_file_that_unpack_to_64_mb_each_count_as_missing(tmp_path: Path) -> None:
    catalogue = RawCatalogue(40)

    async def fill(site_url: str) -> None:
        store = NamespaceStore(SqliteResponseStore(tmp_path / "responses.sqlite"), site_url)
        await store.open()
        for number in range(40):
            await store.put(f"code{number}=/2017", 200, "http://h/x", b'{"data": [[]]}'.ljust(2**26))
        await store.close()

    status, run, site = watched(catalogue, tmp_path, prepare=lambda site_url: asyncio.run(fill(site_url)))
    assert status == 0, run.log
    assert len({target for target in site.targets if "/specs/" in target}) == 40
    assert "A stored answer is damaged and will be fetched again" in run.log


def nested(levels: int) -> Any:
    value: Any = "at the bottom"
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize("levels", [33, 260, 900])
def test_a_listing_nested_too_deeply_costs_itself(tmp_path: Path, levels: int) -> None:
    """Not those that share its specification, whose request carries them all."""
    catalogue = RawCatalogue(20, shared=True)
    odd = catalogue.listings[7]
    odd["attributes"]["extra"] = nested(levels)
    catalogue.listings[8]["attributes"]["extra"] = nested(30)
    status, run, _ = watched(catalogue, tmp_path)
    assert status == 1
    assert with_specs(run) == set(catalogue.ids) - {odd["id"]}
    [aside] = run.run_json()["set_aside"]
    assert (aside["id"], aside["problem"]) == (odd["id"], "is nested deeper than 32 levels")
    assert run.run_json()["given_up"] == []


def test_a_specification_nested_too_deeply_costs_itself(tmp_path: Path) -> None:
    catalogue = RawCatalogue(10)
    group = {"title": "Economy", "attrs": [], "extra": nested(260)}
    catalogue.specs[catalogue.spec_path(3)] = http(json.dumps({"data": [[group]]}).encode())
    status, run, _ = watched(catalogue, tmp_path)
    assert status == 1
    assert with_specs(run) == set(catalogue.ids) - {catalogue.ids[3]}
    assert "data: is nested deeper than 32 levels" in reasons(run)[catalogue.ids[3]]


def test_a_number_beyond_every_float_costs_its_field_or_its_listing(tmp_path: Path) -> None:
    catalogue = RawCatalogue(20)
    catalogue.listings[3]["attributes"]["price"] = -424242
    catalogue.listings[7]["attributes"]["year"] = -424242
    catalogue.pages[0] = lambda body: http(body.replace(b"-424242", b"1e999"))
    catalogue.specs[catalogue.spec_path(5)] = http(USUAL_SPEC.replace(b"[[", b'[[{"odd": -1e999}, ', 1))
    status, run, _ = watched(catalogue, tmp_path)
    assert status == 1
    kept = {record["id"]: record for record in records(run.output_dir)}
    assert kept.keys() == set(catalogue.ids) - {catalogue.ids[7]}
    assert kept[catalogue.ids[3]]["car_attrs"]["price"] == "1e999"
    [aside] = run.run_json()["set_aside"]
    assert (aside["id"], run.run_json()["given_up"]) == (catalogue.ids[7], [])


def test_a_listing_of_half_a_megabyte_costs_itself(tmp_path: Path) -> None:
    catalogue = RawCatalogue(20, shared=True)
    odd = catalogue.listings[7]
    odd["attributes"]["description"] = "x" * 500_000
    catalogue.listings[8]["attributes"]["description"] = "x" * 200_000
    status, run, _ = watched(catalogue, tmp_path)
    assert status == 1
    assert with_specs(run) == set(catalogue.ids) - {odd["id"]}
    [aside] = run.run_json()["set_aside"]
    assert aside["id"] == odd["id"]
    assert "bytes, where 262144 are enough" in aside["problem"]


EMPTY = [{}] * 50_000
"""In JSON 200 KB; in memory twenty times as much."""


def test_listings_of_many_small_values_cost_themselves(tmp_path: Path) -> None:
    """Each waits for a specification of its own, so in a request of its own."""
    catalogue = RawCatalogue(96)
    for one in catalogue.listings[:80]:
        one["attributes"]["extra"] = EMPTY
    for one in catalogue.listings[80:]:
        one["attributes"]["extra"] = EMPTY[:4000]
    status, run, _ = watched(catalogue, tmp_path, settings={"CARS_PAGE_SIZE": 16})
    assert status == 1
    assert with_specs(run) == set(catalogue.ids[80:])
    aside = run.run_json()["set_aside"]
    assert {one["id"] for one in aside} == set(catalogue.ids[:80])
    assert all("values, where 4096 are enough" in one["problem"] for one in aside)


def test_specifications_of_many_small_values_cost_themselves(tmp_path: Path) -> None:
    catalogue = RawCatalogue(100)
    for number in range(90):
        groups = [{"title": f"{number}", "attrs": EMPTY[: 50_000 if number < 80 else 18_000]}]
        catalogue.specs[catalogue.spec_path(number)] = gzipped(json.dumps({"data": [groups]}).encode())
    status, run, _ = watched(catalogue, tmp_path)
    assert status == 1
    assert with_specs(run) == set(catalogue.ids[80:])
    assert reasons(run).keys() == set(catalogue.ids[:80])
    assert all("values, where 20000 are enough" in reason for reason in reasons(run).values())


def test_listings_as_large_as_they_may_be_are_kept_within_the_same_memory(tmp_path: Path) -> None:
    """The counterpart, whose listings do not go into one request: four pages of 4 MB at once."""
    catalogue = RawCatalogue(64, shared=True)
    for number, one in enumerate(catalogue.listings):
        one["attributes"]["description"] = f"{number} " * (250_000 // len(f"{number} "))
    status, run, site = watched(catalogue, tmp_path, settings={"CARS_PAGE_SIZE": 16})
    assert status == 0, run.log
    assert with_specs(run) == set(catalogue.ids)
    assert sum("/specs/" in target for target in site.targets) == 1


@pytest.mark.parametrize("listings", [1, 100])
def test_300_000_unknown_names_on_one_page_are_not_said_one_by_one(tmp_path: Path, listings: int) -> None:
    """On one listing, which is more than one may have, or spread over several, which are kept as they came."""
    catalogue = RawCatalogue(120)
    for number in range(listings):
        each = 300_000 // listings
        names = range(number * each, (number + 1) * each)
        catalogue.listings[number]["attributes"].update((f"{name:05x}", 1) for name in names)
    status, run, _ = watched(catalogue, tmp_path)
    assert status == (1 if listings == 1 else 0), run.log[-5000:]
    assert with_specs(run) == set(catalogue.ids[1:] if listings == 1 else catalogue.ids)
    assert run.log.count("\n") < 1000
    assert (tmp_path / "run.json").stat().st_size < 200_000
