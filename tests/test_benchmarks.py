"""The benchmark runs every contestant on the same catalogue and refuses a run that lost a record."""

from __future__ import annotations

import http.client
import json
import os
import pstats
import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from benchmarks import against, bench
from benchmarks.contestants import ROOT, clean_environment, count_records, measure
from carscraper.demo.catalogue import Catalogue

LISTINGS, PAGE_SIZE = 300, 50


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with bench.static_copy(LISTINGS, PAGE_SIZE) as address:
        yield address


def connection_to(url: str) -> http.client.HTTPConnection:
    return http.client.HTTPConnection(urlsplit(url).netloc, timeout=10)


def test_the_static_copy_answers_what_the_stand_in_would_on_one_connection(url: str) -> None:
    catalogue = Catalogue(LISTINGS)
    connection = connection_to(url)
    query = (("include_featured", "true"), ("sort[date]", "desc"))
    for offset in range(0, LISTINGS, PAGE_SIZE):
        expected = catalogue.page(offset, PAGE_SIZE, url, query)
        connection.request("GET", urlsplit(expected["links"]["self"])._replace(scheme="", netloc="").geturl())
        assert json.loads(connection.getresponse().read()) == expected
    for code, year in sorted(catalogue.keys):
        code_in_url = code.replace("+", "%2B").replace("/", "%2F").replace("=", "%3D")
        connection.request("GET", f"/fw/public/v2/specs/{code_in_url}/{year}")
        answer = connection.getresponse()
        document = catalogue.spec(code, year)
        assert answer.status == (404 if document is None else 200)
        assert json.loads(answer.read()) == (document or {"errors": [{"detail": "not found"}]})
    for target, status in (
        ("/robots.txt", 200),
        ("/other", 404),
        ("/fw/public/v3/vehicle?page[offset]=7", 404),
    ):
        connection.request("GET", target)
        answer = connection.getresponse()
        answer.read()
        assert answer.status == status
    connection.close()


@pytest.mark.parametrize(
    ("name", "specs"),
    [("bare", len(Catalogue(LISTINGS).keys)), ("floor", len(Catalogue(LISTINGS).keys)), ("stock", LISTINGS)],
)
def test_a_contestant_keeps_every_listing_and_asks_as_often_as_it_should(
    url: str, name: str, specs: int, tmp_path: Path
) -> None:
    result = measure(name, url, PAGE_SIZE, tmp_path, tmp_path / "log", timeout_s=60)
    assert result.complete(LISTINGS), (tmp_path / "log").read_text()
    assert result.served == {"pages": LISTINGS // PAGE_SIZE, "specs": specs, "robots": 0, "missing": 0}
    assert 0 < result.cpu_s < result.wall_s * 3
    assert 20 < result.peak_mb < 1_000


def test_a_contestant_that_fails_is_not_complete(tmp_path: Path) -> None:
    with bench.static_copy(0, PAGE_SIZE) as empty:
        result = measure("bare", empty, PAGE_SIZE, tmp_path, tmp_path / "log", timeout_s=60)
    assert (result.status, result.rows) == (0, 0)
    assert not result.complete(LISTINGS)


def test_a_contestant_that_does_not_end_is_killed(url: str, tmp_path: Path) -> None:
    with pytest.raises(TimeoutError):
        measure("stock", url, PAGE_SIZE, tmp_path, tmp_path / "log", timeout_s=0.1)


def test_the_command_prints_a_line_per_contestant_and_the_ratios(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--listings=120", "--page-size=60", "--only=stock,bare"]
    assert bench.main(arguments) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "120 listings, pages of 60"
    assert [line.split("  ")[0] for line in lines[2:4]] == ["stock Scrapy", "bare asyncio client"]
    assert lines[4].startswith("stock Scrapy / bare asyncio client: wall ")


def test_a_crawl_that_is_reparsed_is_compared_with_the_crawl(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Which has to be a whole one, and three times as slow."""
    assert bench.main(["--listings=120", "--only=reparse"]) == 0
    lines = capsys.readouterr().out.splitlines()
    crawled, again = (line.split() for line in lines[2:4])
    assert (crawled[:2], again[:2]) == (["this", "crawl"], ["…", "reparsed"])
    assert again[5:] == ["0", "0", "0", "120", "120", "0", "0.00"]
    assert re.fullmatch(r"a crawl takes \d+\.\d times as long as reparsing it", lines[-1])

    monkeypatch.setattr(bench, "WHOLE", 100)
    monkeypatch.setattr(bench, "TIMES_FASTER", 1000)
    assert bench.main(["--listings=120", "--only=reparse"]) == 1


def test_records_that_are_not_those_of_the_crawl_are_the_exit_status(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    fingerprints = iter([1, 2])
    monkeypatch.setattr(bench, "fingerprint", lambda path: next(fingerprints))
    assert bench.main(["--listings=120", "--only=reparse"]) == 1
    assert "other records than those of the crawl" in capsys.readouterr().err


def test_a_wrong_number_of_records_is_the_exit_status(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("benchmarks.contestants.count_records", lambda path: (119, 119))
    assert bench.main(["--listings=120", "--only=bare"]) == 1


def test_an_unknown_contestant_is_refused() -> None:
    with pytest.raises(SystemExit) as ended:
        bench.main(["--only=other"])
    assert ended.value.code == 2


def test_records_are_counted_across_pieces_of_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("benchmarks.contestants._PIECE", 7)
    path = tmp_path / "cars.json"
    path.write_text(json.dumps([{"id": "1", "x": "é],["}, {"id": "2"}, {"id": "1"}], indent=1) + "\n")
    assert count_records(path) == (3, 2)
    path.write_text("[]")
    assert count_records(path) == (0, 0)
    path.write_text('[{"id": "1"}, {"id"')
    with pytest.raises(ValueError, match="not a whole JSON array"):
        count_records(path)
    assert count_records(tmp_path / "none.json") == (0, 0)


def test_the_environment_of_a_contestant_sets_nothing_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CARS_API_URL", "http://elsewhere")
    monkeypatch.setenv("REDIS_URL", "redis://elsewhere")
    assert clean_environment().keys() <= os.environ.keys() - {"CARS_API_URL", "REDIS_URL"}


def test_a_checkout_is_compared_with_another_commit_pair_by_pair(capsys: pytest.CaptureFixture[str]) -> None:
    size = [f"--listings={LISTINGS}", f"--page-size={PAGE_SIZE}"]
    assert against.main(["HEAD", *size, "--pairs=1", "--most=50"]) == 0
    pair, user, *_ = capsys.readouterr().out.splitlines()
    assert pair.count("requests") == 2
    assert user.startswith("user ")
    assert "ratio of pairs" in user
    assert against.main(["HEAD", *size, "--pairs=1", "--most=0"]) == 1


def test_a_profile_tells_the_parts_of_this_project_from_the_library() -> None:
    """Our packages lie in the checkout, beside those that are installed below it."""
    figures = pstats.Stats()
    figures.stats = {  # type: ignore[attr-defined]
        (str(ROOT / "scrapy_durable/frontier/redis.py"), 1, "exchange"): (1, 1, 4.0, 4.0, {}),
        (str(ROOT / "scrapy_durable/leases.py"), 1, "take"): (1, 1, 3.0, 3.0, {}),
        (str(ROOT / ".venv/lib/python3.11/site-packages/twisted/web/http.py"), 1, "get"): (
            1,
            1,
            2.0,
            2.0,
            {},
        ),
        ("/usr/lib/python3.11/json/decoder.py", 1, "decode"): (1, 1, 1.0, 1.0, {}),
    }
    assert [line.split("%  ")[1] for line in bench.shares(figures)] == [
        "scrapy_durable/frontier",
        "scrapy_durable/leases",
        "twisted",
        "Python's library",
    ]
