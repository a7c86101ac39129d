"""What a reparse never does: ask anybody, disturb a crawl, or say that a listing is off the site."""

from __future__ import annotations

import json
import re
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.crawling import wait_until
from tests.databases.looking import Databases, two_servers
from tests.reparse.conftest import SECONDS, House
from tests.reparse.no_network import DENIED
from tests.standin import StandIn
from tests.tripwires import Tripwire

DENYING = (sys.executable, "-m", "tests.reparse.no_network")
IN_PYTHON = {"ASYNCIO_EVENT_LOOP": "asyncio.SelectorEventLoop"}
SLOW = {
    "CARS_PAGE_SIZE": 10,
    "CONCURRENT_REQUESTS": 4,
    "CARS_BATCH_SECONDS": 0.05,
    "DURABLE_LEASE_SECONDS": 1,
}


def allowed(house: House) -> dict[str, str]:
    return {"ALLOWED": f"127.0.0.1:{house.server.port}"} if house.server else {}


def test_it_connects_to_nothing_but_its_stores(house: House, stand_in: Callable[..., StandIn]) -> None:
    site = stand_in(120)
    records = house.crawled(site)
    asked = site.counts()
    settings = {**IN_PYTHON, "CARS_API_URL": site.url, "ROBOTSTXT_OBEY": True}
    assert house.reparsed(runner=DENYING, env=allowed(house), settings=settings) == records
    run = house.reparse("--list", runner=DENYING, env=allowed(house), settings=settings)
    assert run.wait(SECONDS) == 0, run.log
    assert site.counts() == asked


def test_a_crawl_would_be_denied_the_site(house: House, stand_in: Callable[..., StandIn]) -> None:
    """The counterpart: what is denied above, a crawl needs."""
    run = house.crawl(stand_in(20), runner=DENYING, env=allowed(house), settings=IN_PYTHON)
    assert run.wait(SECONDS) == DENIED
    assert "denied: socket." in run.log


def test_neither_the_api_nor_a_proxy_nor_robots_txt_is_touched(
    file_house: House, stand_in: Callable[..., StandIn]
) -> None:
    """On the event loop that it has when nobody asks for another."""
    records = file_house.crawled(stand_in(60))
    with Tripwire("127.0.0.1") as wire:
        settings = {"CARS_API_URL": f"{wire.url}fw/public", "DURABLE_PROXIES": wire.url.rstrip("/")}
        env = {"http_proxy": wire.url, "https_proxy": wire.url}
        assert file_house.reparsed(settings=settings, env=env) == records
        assert wire.touched == 0


def started(house: House, site: StandIn, pages: int, **options: Any) -> Any:
    """A crawl that has kept so many pages and is not at its end."""
    run = house.crawl(site, settings=SLOW, **options)
    wait_until(lambda: site.counts()["pages"] > pages or not run.running)
    assert run.running, run.log
    return run


def test_a_crawl_that_can_go_on_is_left_as_it_is(
    house: House, stand_in: Callable[..., StandIn], tmp_path: Path
) -> None:
    """With `JOBDIR` or Redis, byte by byte; and it goes on to its end, once the site answers for all pages."""
    rules = [{"match": "offset%5D=1..&", "fault": "hang"}, {"fault": "delay", "seconds": 0.1}]
    site = stand_in(200, rules=rules)
    jobdir = None if house.server else tmp_path / "job"
    run = started(house, site, 5, jobdir=jobdir)
    run.kill()
    wait_until(lambda: not claims(house))  # they end by themselves, a second after the crawl at the latest
    before = state(house, jobdir)
    assert before

    reparsed = house.reparse(settings={"JOBDIR": jobdir} if jobdir else {})
    assert reparsed.wait(SECONDS) == 1, reparsed.log
    assert "pages of the crawl cannot be had from the response store" in reparsed.log
    assert state(house, jobdir) == before

    site.faults([])
    records = house.crawled(site, jobdir=jobdir)
    assert len(records) == 200
    assert house.reparsed() == records


def claims(house: House) -> list[bytes]:
    """What the killed crawl was about to ask for, and others were to wait for."""
    if house.server is None:
        return []
    with house.server.client() as client:
        return list(client.scan_iter("*:response-claim:*"))


VALUE: dict[bytes, Callable[[Any, bytes], Any]] = {
    b"string": lambda client, name: client.get(name),
    b"hash": lambda client, name: client.hgetall(name),
    b"set": lambda client, name: client.smembers(name),
    b"zset": lambda client, name: client.zrange(name, 0, -1, withscores=True),
    b"list": lambda client, name: client.lrange(name, 0, -1),
}
"""Of a key of Redis, by its type: `DUMP` has the fields of a hash in an order that reading it may change."""


def state(house: House, jobdir: Path | None) -> dict[str, Any]:
    """Everything that a crawl would go on with, and when Redis is to forget it."""
    if house.server is None:
        assert jobdir is not None
        files = [path for path in jobdir.rglob("*") if path.is_file()]
        return {str(path): path.read_bytes() for path in files}
    with house.server.client() as client:
        return {
            name.decode(): (VALUE[client.type(name)](client, name), client.pexpiretime(name))
            for name in client.scan_iter()
        }


def test_a_crawl_that_runs_is_not_disturbed(
    house: House, stand_in: Callable[..., StandIn], tmp_path: Path
) -> None:
    site = stand_in(200, rules=[{"fault": "delay", "seconds": 0.5}])
    run = started(house, site, 2, jobdir=None if house.server else tmp_path / "job")
    reparsed = house.reparse()
    assert reparsed.wait(SECONDS) == 1, reparsed.log
    assert run.running, run.log
    site.faults([])
    assert run.wait(SECONDS) == 0, run.log
    assert sorted(run.cars()) == sorted(site.ids())
    assert run.run_json()["status"] == "complete"


def test_when_it_is_stopped_cars_json_is_as_it_was(
    file_house: House, stand_in: Callable[..., StandIn], tmp_path: Path
) -> None:
    file_house.crawled(stand_in(120))
    before = files(file_house)
    pipelines = {
        "tests.reparse.pipelines.Slow": 100,
        "tests.reparse.pipelines.Notebook": 200,
        "carscraper.pipelines.item_log.ItemLogPipeline": 900,
    }
    notebook = tmp_path / "notebook"
    run = file_house.reparse(
        settings={"ITEM_PIPELINES": json.dumps(pipelines)}, env={"NOTEBOOK": str(notebook)}
    )
    # Scrapy ends without a word when it is stopped before its engine has started.
    wait_until(lambda: not run.running or (notebook.exists() and "car" in notebook.read_text()))
    run.send(signal.SIGTERM)
    assert run.wait(SECONDS) == 1
    assert "The crawl was not reparsed (shutdown); cars.json is as it was" in run.log
    assert files(file_house) == before


def files(house: House) -> dict[str, bytes]:
    return {name: (house.output_dir / name).read_bytes() for name in ("cars.json", "run.json")}


@pytest.fixture(scope="module")
def databases() -> Any:
    with two_servers() as servers:
        yield servers


def test_records_go_to_the_databases_and_no_listing_is_marked_as_removed(
    file_house: House, databases: Databases, stand_in: Callable[..., StandIn]
) -> None:
    """A complete crawl of everything marks what it has not seen; a reparse of the same crawl does not."""
    larger, smaller = stand_in(120), stand_in(120)
    lost = larger.ids()[:5]
    smaller.churn(remove=lost)
    file_house.crawled(larger, env=databases.env)
    records = file_house.crawled(smaller)
    assert file_house.reparsed(env=databases.env) == records
    assert databases.removed() == (set(), set())
    assert databases.counts() == (120, 120)
    read_at = {document["last_seen"] for document in databases.documents().values()}
    assert len(read_at) > 1, "what was reparsed has come"

    file_house.crawled(smaller, env=databases.env)
    assert databases.removed() == (set(lost), set(lost)), "the counterpart: a crawl marks them"


def test_databases_that_were_empty_have_what_a_crawl_would_have_brought(
    file_house: House, databases: Databases, stand_in: Callable[..., StandIn]
) -> None:
    site = stand_in(80)
    file_house.crawled(site)
    empty = Databases(databases.mongo, databases.postgres)
    file_house.reparsed(env=empty.env)
    assert empty.counts() == (80, 80)
    assert set(empty.documents()) == set(empty.rows()) == set(site.ids())


def test_a_database_that_says_no_is_named_in_one_line_and_nothing_is_written(
    file_house: House, databases: Databases, stand_in: Callable[..., StandIn]
) -> None:
    file_house.crawled(stand_in(20))
    before = files(file_house)
    for name, address in (
        ("POSTGRES_DSN", databases.postgres.dsn(databases.name, password="canary-8d1f")),
        ("MONGO_URI", "mongodb://user:canary-8d1f@127.0.0.1:port/cars"),
    ):
        run = file_house.reparse(env={name: address})
        assert run.wait(SECONDS) == 2, run.log
        assert run.log.startswith(f"error: {name}: ")
        assert run.log.count("\n") == 1
        assert "canary" not in run.log
    assert files(file_house) == before


def test_the_pages_of_the_crawl_stay_for_another_time(house: House, stand_in: Callable[..., StandIn]) -> None:
    house.crawled(stand_in(60))
    listed = house.reparse("--list")
    assert listed.wait(SECONDS) == 0
    house.reparsed()
    again = house.reparse("--list")
    assert again.wait(SECONDS) == 0
    assert without_sizes(again.log) == without_sizes(listed.log)


def without_sizes(text: str) -> str:
    """Redis says to the byte what it needs, which may differ from one time to the next."""
    return re.sub(r"[\d,.]+ MB", "", re.sub(r" +\d+  20", "  20", text))
