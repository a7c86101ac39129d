"""`scrapy erase`: single listings removed from wherever they are kept, by the real command line."""

from __future__ import annotations

import json
import os
import sqlite3
import sys
from collections.abc import Callable, Mapping
from contextlib import ExitStack, closing
from pathlib import Path

import pytest
import redis
import zstandard

from tests.crash.worker import KILLED
from tests.crawling import _OURS, Crawl, crawl, wait_until
from tests.databases.looking import Databases
from tests.databases.test_outages import BATCHES
from tests.kept import kept_records
from tests.redis_server import RedisServer
from tests.standin import ROOT, StandIn

SECONDS = 120
PAGES = {"CARS_PAGE_SIZE": 10}
OUT_OF_REACH = (
    "not looked at: feeds and exports written elsewhere, backups, logs, runs.jsonl (reasons, arguments), "
    "disks of other machines"
)


def scrapy(
    *command: str,
    output_dir: Path,
    status: int,
    env: Mapping[str, str],
    module: str = "scrapy",
    **settings: object,
) -> list[str]:
    """What a command of ours has said, once it has ended."""
    line = [sys.executable, "-m", module, *command, "-s", f"CARS_OUTPUT_DIR={output_dir}"]
    for name, value in settings.items():
        line += ["-s", f"{name}={value}"]
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(_OURS)}
    with Crawl(line, output_dir, {**inherited, **env}) as run:
        assert run.wait(SECONDS) == status, run.log
        assert "Traceback" not in run.log
        return run.log.splitlines()


def lines(path: Path) -> list[bytes]:
    """The records of a published file, sorted, without what parts them."""
    first, *between, last = path.read_bytes().split(b"\n")[:-1]
    assert (first, last) == (b"[", b"]")
    return sorted(line.removesuffix(b",") for line in between)


def others(found: list[bytes], erased: set[str]) -> list[bytes]:
    return [line for line in found if json.loads(line)["id"] not in erased]


def holding(directory: Path, text: str) -> list[str]:
    """The files below a directory that hold a text, also where it is packed."""
    found = []
    for path in sorted(path for path in directory.rglob("*") if path.is_file()):
        if text.encode() in path.read_bytes():
            found.append(path.name)
    if (directory / "responses.sqlite").exists():
        with closing(sqlite3.connect(directory / "responses.sqlite")) as connection:
            for key, body in connection.execute("SELECT key, body FROM response"):
                if text.encode() in zstandard.ZstdDecompressor().decompress(body):
                    found.append(key)
    return found


def pages_on_redis(client: redis.Redis) -> dict[bytes, bytes]:
    """What is kept there of crawls, unpacked, by key."""
    found: dict[bytes, bytes] = {}
    for name in client.scan_iter("*:responses-of:*"):
        for key, value in client.hgetall(name).items():  # type: ignore[union-attr]
            frame = value[value.index(zstandard.FRAME_HEADER) :]
            found[key] = zstandard.ZstdDecompressor().decompress(frame, allow_extra_data=True)
    return found


def private_text(path: Path, listing: str) -> str:
    """What nothing but that listing has: the address of its page."""
    (record,) = (record for record in json.loads(path.read_bytes()) if record["id"] == listing)
    return str(record["car_attrs"]["website_url"])


def test_a_listing_is_removed_from_files_pages_searches_and_databases(
    databases: Databases, stand_in: Callable[..., StandIn], tmp_path: Path
) -> None:
    site = stand_in(30)
    for arguments in ((), ("-a", "limit=15")):
        with crawl(site.url, tmp_path, *arguments, settings=PAGES, env=databases.env) as run:
            assert run.wait(SECONDS) == 0, run.log
    whole, search = tmp_path / "cars.json", run.place / "cars.json"
    first, gone = site.ids()[:2]
    erased = {first, gone}
    texts = [private_text(whole, listing) for listing in sorted(erased)]
    assert all(holding(tmp_path, text) for text in texts)
    before = {path: lines(path) for path in (whole, search)}
    rows, documents = databases.rows(), databases.documents()

    said = scrapy("erase", first, gone, "123", output_dir=tmp_path, status=0, env=databases.env)

    assert said[-2:] == ["123: found nowhere", OUT_OF_REACH]
    both = ", ".join(sorted(erased))
    for place in (whole, search):
        assert f"{place}: removed: {both}" in said
        assert lines(place) == others(before[place], erased), "the others are as they were, to the byte"
    for name in ("MongoDB", "PostgreSQL"):
        (line,) = (line for line in said if line.startswith(f"{name} at "))
        assert line.endswith(f": removed with its prices: {both}")
    assert sum("pages of crawl" in line for line in said) == 2
    for text in texts:
        assert holding(tmp_path, text) == []
    for listing in erased:
        assert databases.prices(listing) == ([], [])
        del rows[listing], documents[listing]
    assert (databases.rows(), databases.documents()) == (rows, documents)

    again = scrapy("erase", gone, output_dir=tmp_path, status=0, env=databases.env)
    assert again == [f"{gone}: found nowhere", OUT_OF_REACH]

    crawls = scrapy("reparse", "--list", output_dir=tmp_path, status=0, env={})
    (of_all,) = (line.split()[0] for line in crawls if line.endswith("everything"))
    whole.unlink()
    scrapy("reparse", "--crawl", of_all, output_dir=tmp_path, status=0, env=databases.env)
    assert lines(whole) == others(before[whole], erased), "its pages do not bring it back"
    assert databases.rows().keys() == databases.documents().keys() == rows.keys()


def test_it_is_removed_from_pages_that_are_kept_on_redis(
    stand_in: Callable[..., StandIn], tmp_path: Path
) -> None:
    site = stand_in(30)
    with RedisServer() as server:
        with crawl(site.url, tmp_path, settings=PAGES, redis_url=server.url) as run:
            assert run.wait(SECONDS) == 0, run.log
        before, gone = lines(tmp_path / "cars.json"), site.ids()[12]
        with server.client() as client:
            (name,) = client.scan_iter("*:responses-of:*")
            ends = client.pexpiretime(name)
        said = scrapy("erase", gone, output_dir=tmp_path, status=0, env={"REDIS_URL": server.url})
        assert any(
            line.startswith("the response store on Redis: pages of crawl ")
            and line.endswith(f": removed: {gone}")
            for line in said
        ), said
        with server.client() as client:
            assert client.pexpiretime(name) == ends, "they are kept no longer for it"
        (tmp_path / "cars.json").unlink()
        scrapy("reparse", output_dir=tmp_path, status=0, env={"REDIS_URL": server.url})
        assert lines(tmp_path / "cars.json") == others(before, {gone})


def test_what_was_quoted_of_a_listing_that_was_set_aside_goes_too(
    stand_in: Callable[..., StandIn], tmp_path: Path
) -> None:
    secret = "call-0821234567"
    rule = {
        "match": "offset%5D=20&",
        "fault": "edit",
        "path": "data[3].attributes.year",
        "do": "set",
        "to": secret,
    }
    site = stand_in(30, rules=[rule])
    with crawl(site.url, tmp_path, settings=PAGES) as run:
        assert run.wait(SECONDS) == 1, run.log
    ((spoilt, problem),) = ((one["id"], one["problem"]) for one in run.run_json()["set_aside"])
    assert secret in problem
    said = scrapy("erase", spoilt, output_dir=tmp_path, status=0, env={})
    assert f"{tmp_path / 'run.json'}: its reason removed: {spoilt}" in said
    left = holding(tmp_path, secret)
    assert left == [], left
    (aside,) = run.run_json()["set_aside"]
    assert (aside["id"], aside["problem"]) == (spoilt, "erased")


def test_it_is_refused_while_a_crawl_runs_and_while_one_can_go_on(
    stand_in: Callable[..., StandIn], tmp_path: Path
) -> None:
    site = stand_in(30, rules=[{"match": "offset%5D=20&", "fault": "hang"}])
    output_dir, jobdir = tmp_path / "out", tmp_path / "job"
    gone = site.ids()[0]
    settings = {**PAGES, **BATCHES, "DOWNLOAD_TIMEOUT": 600}
    with crawl(site.url, output_dir, settings=settings, jobdir=jobdir) as run:
        wait_until(lambda: kept_records(output_dir), SECONDS, what="something is kept")
        (line,) = scrapy("erase", gone, output_dir=output_dir, status=2, env={})
        assert line.startswith(f"error: a process works on {output_dir / 'crawls'}")
        assert run.running
        run.kill()
    (line,) = scrapy("erase", gone, output_dir=output_dir, status=2, env={}, JOBDIR=jobdir)
    assert "has not ended" in line
    assert "`scrapy queue forget`" in line
    scrapy("queue", "forget", "--yes", output_dir=output_dir, status=0, env={}, JOBDIR=jobdir)
    scrapy("erase", gone, output_dir=output_dir, status=0, env={}, JOBDIR=jobdir)


def test_it_is_refused_while_a_crawl_is_at_work_on_redis(
    stand_in: Callable[..., StandIn], tmp_path: Path
) -> None:
    """Also from another machine, which shares nothing with that crawl but Redis."""
    site = stand_in(30, rules=[{"match": "offset%5D=20&", "fault": "hang"}])
    gone, there, here = site.ids()[0], tmp_path / "there", tmp_path / "here"
    settings = {**PAGES, "DOWNLOAD_TIMEOUT": 600}
    with RedisServer() as server, server.client() as client:
        env = {"REDIS_URL": server.url}
        with crawl(site.url, there, settings=settings, redis_url=server.url) as run:
            wait_until(lambda: pages_on_redis(client), SECONDS, what="a page that is kept")
            before = pages_on_redis(client)
            assert any(gone.encode() in body for body in before.values())
            (line,) = scrapy("erase", gone, output_dir=here, status=2, env=env)
            assert line.startswith("error: crawl ")
            assert "has not ended" in line
            assert "`scrapy queue forget`" in line
            assert pages_on_redis(client).items() >= before.items(), "nothing was touched"
            assert run.running
            run.kill()
        (line,) = scrapy("erase", gone, output_dir=here, status=2, env=env)
        assert "has not ended" in line, "its requests wait for another worker"
        scrapy("queue", "forget", "--yes", output_dir=here, status=0, env=env)
        scrapy("erase", gone, output_dir=here, status=0, env=env)
        assert not any(gone.encode() in body for body in pages_on_redis(client).values())


DEATHS = [
    ("before rename", 1),
    ("after rename", 1),
    ("after rename", 1),
    ("before rewrite", 2),
    ("after rewrite", 2),
    ("before erase-mongo", 1),
    ("after erase-mongo", 1),
    ("before erase-postgres", 1),
    ("after erase-postgres", 1),
]
"""One after the other, each on the way that the ones before it have left."""


@pytest.mark.parametrize("shared", [False, True], ids=["pages in a file", "pages on Redis"])
def test_one_that_is_killed_on_the_way_is_repeated_until_nothing_is_left(
    databases: Databases, stand_in: Callable[..., StandIn], tmp_path: Path, shared: bool
) -> None:
    site = stand_in(30)
    with ExitStack() as running:
        env = dict(databases.env)
        if shared:
            server = running.enter_context(RedisServer())
            client = running.enter_context(server.client())
            env["REDIS_URL"] = server.url
        for arguments in ((), ("-a", "limit=15")):
            with crawl(site.url, tmp_path, *arguments, settings=PAGES, env=env) as run:
                assert run.wait(SECONDS) == 0, run.log
        published = [tmp_path / "cars.json", run.place / "cars.json"]
        before = {path: lines(path) for path in published}
        rows, documents = databases.rows(), databases.documents()
        erased = {site.ids()[0], site.ids()[14]}
        texts = [private_text(published[0], listing) for listing in sorted(erased)]
        if shared:
            assert any(texts[0].encode() in body for body in pages_on_redis(client).values())

        for point, passing in DEATHS:
            dying = {"CRASH_POINT": point, "CRASH_AT": str(passing), "PYTHONPATH": str(ROOT)}
            worker = {"module": "tests.crash.worker", "status": KILLED}
            scrapy("erase", *erased, output_dir=tmp_path, env={**env, **dying}, **worker)
            for path in published:
                assert others(lines(path), erased) == others(before[path], erased), "never half a file"
        scrapy("erase", *erased, output_dir=tmp_path, status=0, env=env)

        assert scrapy("erase", *erased, output_dir=tmp_path, status=0, env=env)[-1] == OUT_OF_REACH
        for text in texts:
            assert holding(tmp_path, text) == []
            if shared:
                assert not any(text.encode() in body for body in pages_on_redis(client).values())
    for path in published:
        assert lines(path) == others(before[path], erased)
    for listing in erased:
        assert databases.prices(listing) == ([], [])
        del rows[listing], documents[listing]
    assert (databases.rows(), databases.documents()) == (rows, documents)


def test_a_database_that_is_down_is_named_and_what_waits_for_it_is_delivered_first(
    mortal: Databases, stand_in: Callable[..., StandIn], tmp_path: Path
) -> None:
    site = stand_in(30)
    gone = site.ids()[0]
    with crawl(site.url, tmp_path, settings=PAGES, env=mortal.env) as run:
        assert run.wait(SECONDS) == 0, run.log
    mortal.postgres.kill()
    said = scrapy("erase", gone, output_dir=tmp_path, status=1, env=mortal.env)
    assert any(line.startswith("NOT erased there: PostgreSQL: ") for line in said), said
    assert gone not in mortal.documents()
    with crawl(site.url, tmp_path, settings={**PAGES, "CARS_STORE_TIMEOUT": 1}, env=mortal.env) as run:
        assert run.wait(SECONDS) == 1, run.log
    assert gone in mortal.documents(), "a crawl brings it back while it is on the site"
    (line,) = scrapy("erase", gone, output_dir=tmp_path, status=2, env=mortal.env)
    assert "`scrapy deliver` first" in line
    mortal.postgres.start()
    scrapy("deliver", output_dir=tmp_path, status=0, env=mortal.env)
    scrapy("erase", gone, output_dir=tmp_path, status=0, env=mortal.env)
    assert gone not in mortal.documents()
    assert gone not in mortal.rows()


def test_what_is_damaged_is_named_and_left_alone(tmp_path: Path) -> None:
    cut = b'[\n{"id":"123","url":"",\n'
    (tmp_path / "cars.json").write_bytes(cut)
    (tmp_path / "responses.sqlite").write_bytes(b"no database")
    said = scrapy("erase", "123", output_dir=tmp_path, status=1, env={})
    failed = [line for line in said if line.startswith(f"NOT erased there: {tmp_path}")]
    assert [line.split(":")[1].partition(".")[0].rpartition("/")[2] for line in failed] == [
        "cars",
        "responses",
    ]
    assert said[-2:] == ["123: found nowhere that could be read", OUT_OF_REACH]
    assert (tmp_path / "cars.json").read_bytes() == cut


@pytest.mark.parametrize("given", ["", "../../etc", "9" * 65, "a b"])
def test_what_is_no_id_is_refused(tmp_path: Path, given: str) -> None:
    (line,) = scrapy("erase", "123", given, output_dir=tmp_path / "none", status=2, env={})
    assert "is no listing's id" in line
    assert not (tmp_path / "none").exists()
