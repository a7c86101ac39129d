"""The stand-in over HTTP: what it answers, how it misbehaves on request, and what its journal says."""

from __future__ import annotations

import gzip
import http.client
import json
import signal
import subprocess
import sys
import time
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import brotli  # type: ignore[import-untyped]
import pytest
import zstandard

from tests.crawling import wait_until
from tests.standin import PAGE_PATH, ROOT, StandIn

PAGE = f"{PAGE_PATH}?page%5Boffset%5D=0&page%5Blimit%5D=5"


@pytest.fixture(scope="module")
def shared() -> Iterator[StandIn]:
    with StandIn(listings=60) as running:
        yield running


@pytest.fixture
def site(shared: StandIn) -> StandIn:
    shared.faults([])
    shared.reset_journal()
    return shared


def get(site: StandIn, target: str, timeout: float = 10) -> tuple[http.client.HTTPResponse, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", site.port, timeout=timeout)
    try:
        connection.request("GET", target, headers={"User-Agent": "tester"})
        response = connection.getresponse()
        return response, response.read()
    finally:
        connection.close()


def get_json(site: StandIn, target: str) -> Any:
    return json.loads(get(site, target)[1])


def quoted(code: str) -> str:
    return code.replace("+", "%2B").replace("/", "%2F").replace("=", "%3D")


def test_pages_follow_next_to_the_end_through_the_links_own_address(site: StandIn) -> None:
    target, read = f"{PAGE_PATH}?page[offset]=0&page[limit]=25", []
    while target:
        page = get_json(site, target)
        read += [row["id"] for row in page["data"]]
        following = page["links"].get("next", "")
        assert following.startswith(site.url) or not following
        target = following.removeprefix(f"http://127.0.0.1:{site.port}")
    assert read == site.ids()


def test_every_code_is_found_as_one_quoted_segment(site: StandIn) -> None:
    keys = site.keys()
    assert any("/" in code for code, _ in keys)
    statuses = [get(site, f"/fw/public/v2/specs/{quoted(code)}/{year}")[0].status for code, year in keys]
    assert set(statuses) == {200, 404}
    assert statuses.count(200) > len(keys) * 0.8


@pytest.mark.parametrize("code", ["a/b", "a%00b", "%C3%A9", "..", "%25", "x" * 200])
def test_a_code_that_is_none_is_not_found(site: StandIn, code: str) -> None:
    assert get(site, f"/fw/public/v2/specs/{code}/2020")[0].status == 404


def test_a_limit_above_the_largest_page_is_capped_and_the_links_say_so() -> None:
    with StandIn(listings=300) as site:
        page = get_json(site, f"{PAGE_PATH}?page[offset]=0&page[limit]=500")
    assert len(page["data"]) == 120
    assert "page%5Boffset%5D=120&page%5Blimit%5D=120" in page["links"]["next"]


@pytest.mark.parametrize(
    "query", ["page[limit]=x", "page[limit]=0", "page[offset]=-5", "year[0]=soon", "fault=fire"]
)
def test_a_query_that_makes_no_sense_is_answered_400(site: StandIn, query: str) -> None:
    response, body = get(site, f"{PAGE_PATH}?{query}")
    assert response.status == 400
    assert json.loads(body)["errors"]


def test_robots_txt_allows_and_can_be_faulted(site: StandIn) -> None:
    assert get(site, "/robots.txt")[1] == b"User-agent: *\nAllow: /\n"
    site.faults([{"match": "^/robots.txt$", "fault": "status", "status": 500}])
    assert get(site, "/robots.txt")[0].status == 500


def test_status_comes_with_retry_after_verbatim(site: StandIn) -> None:
    site.faults(
        [{"fault": "status", "status": 429, "retry_after": "Fri, 31 Dec 1999 23:59:59 GMT", "times": 1}]
    )
    response, _ = get(site, PAGE)
    assert (response.status, response.headers["Retry-After"]) == (429, "Fri, 31 Dec 1999 23:59:59 GMT")
    assert get(site, PAGE)[0].status == 200


def test_delay_answers_late_and_hang_not_at_all(site: StandIn) -> None:
    """A busy machine makes delays longer, never shorter: so it is the shortest that says how long they are."""
    for _ in range(5):
        assert get(site, f"{PAGE}&fault=delay,seconds=0.2")[0].status == 200
    with pytest.raises(TimeoutError):
        get(site, f"{PAGE}&fault=hang", timeout=0.2)
    wait_until(lambda: site.counts()["requests"] == 6)
    *delayed, hung = site.journal()
    assert 0.2 <= min(entry["ended"] - entry["started"] for entry in delayed) < 1
    assert (hung["status"], hung["fault"]) == (None, "hang")


def test_drip_sends_a_little_at_a_time(site: StandIn) -> None:
    target = f"{PAGE}&fault=drip,bytes=2000,seconds=0.05"
    _, body = get(site, target)
    assert json.loads(body)["data"]
    assert site.journal()[0]["ended"] - site.journal()[0]["started"] >= 0.05 * (len(body) // 2000)


def test_reset_ends_the_connection_before_any_answer(site: StandIn) -> None:
    with pytest.raises(ConnectionResetError):
        get(site, f"{PAGE}&fault=reset")
    assert site.journal()[0]["status"] is None


@pytest.mark.parametrize("way", ["length", "chunked"])
def test_a_truncated_answer_is_noticed_by_http(site: StandIn, way: str) -> None:
    with pytest.raises(http.client.IncompleteRead):
        get(site, f"{PAGE}&fault=truncate,way={way}")


def test_an_answer_cut_by_closing_is_half_the_body(site: StandIn) -> None:
    response, half = get(site, f"{PAGE}&fault=truncate,way=close")
    _, whole = get(site, PAGE)
    assert response.status == 200
    assert whole.startswith(half)
    assert len(half) == len(whole) // 2


def test_a_gzip_stream_that_ends_early_is_noticed_by_unpacking(site: StandIn) -> None:
    response, body = get(site, f"{PAGE}&fault=truncate,way=gzip")
    assert response.headers["Content-Encoding"] == "gzip"
    with pytest.raises(EOFError):
        gzip.decompress(body)


def test_html_challenge_and_empty_bodies_are_no_json(site: StandIn) -> None:
    response, body = get(site, f"{PAGE}&fault=html")
    assert (response.status, response.headers["Content-Type"][:9]) == (200, "text/html")
    response, body = get(site, f"{PAGE}&fault=challenge,status=503")
    assert response.status == 503
    assert b"Just a moment" in body
    response, body = get(site, f"{PAGE}&fault=empty")
    assert (response.status, body) == (200, b"")


def test_json_is_broken_marked_or_in_another_charset(site: StandIn) -> None:
    _, right = get(site, PAGE)
    _, bad = get(site, f"{PAGE}&fault=bad_json")
    with pytest.raises(json.JSONDecodeError):
        json.loads(bad)
    assert get(site, f"{PAGE}&fault=bom")[1] == b"\xef\xbb\xbf" + right
    response, wrong = get(site, f"{PAGE}&fault=charset,encoding=utf-16")
    assert response.headers["Content-Type"] == "application/json; charset=utf-8"
    assert wrong.decode("utf-16") == right.decode()


def test_redirects_go_where_the_rule_says_or_round_in_circles(site: StandIn) -> None:
    site.faults(
        [{"match": "specs", "fault": "redirect", "location": "http://169.254.169.254/x", "status": 307}]
    )
    response, _ = get(site, "/fw/public/v2/specs/a/2020")
    assert (response.status, response.headers["Location"]) == (307, "http://169.254.169.254/x")
    response, _ = get(site, f"{PAGE}&fault=redirect")
    assert response.headers["Location"] == f"{PAGE}&fault=redirect"


@pytest.mark.parametrize("sized", ["true", "false"])
def test_a_huge_body_is_as_long_as_asked(site: StandIn, sized: str) -> None:
    response, body = get(site, f"{PAGE}&fault=huge,bytes=3000001,sized={sized}")
    assert len(body) == 3_000_001
    assert ("Content-Length" in response.headers) == (sized == "true")


@pytest.mark.parametrize(
    ("encoding", "unpack"),
    [
        ("gzip", lambda body: zlib.decompress(body, 31)),
        ("br", brotli.decompress),
        ("zstd", lambda body: zstandard.ZstdDecompressor().decompress(body)),
    ],
)
def test_a_bomb_is_small_until_unpacked(
    site: StandIn, encoding: str, unpack: Callable[[bytes], bytes]
) -> None:
    response, body = get(site, f"{PAGE}&fault=bomb,encoding={encoding},bytes=3000000")
    assert response.headers["Content-Encoding"] == encoding
    assert len(body) < 5_000
    assert unpack(body) == bytes(3_000_000)


def test_edit_changes_one_value_of_the_right_answer(site: StandIn) -> None:
    right = get_json(site, PAGE)
    site.faults([{"fault": "edit", "path": "data[2].attributes.code", "do": "drop"}])
    edited = get_json(site, PAGE)
    del right["data"][2]["attributes"]["code"]
    assert edited == right


def test_changes_are_made_after_the_page_that_the_script_names(stand_in: Callable[..., StandIn]) -> None:
    site = stand_in(listings=20, churn=[{"after_pages": 2, "add": 1, "remove": {"offset": 3, "count": 2}}])
    before = site.ids()
    totals = [get_json(site, PAGE)["meta"]["total"] for _ in range(3)]
    assert totals == [20, 20, 19]
    assert site.ids()[1:] == before[:3] + before[5:]


def test_churn_at_once_tells_what_it_did(stand_in: Callable[..., StandIn]) -> None:
    site = stand_in(listings=20)
    before = site.ids()
    done = site.churn(add=2, remove=[before[4]], price={before[0]: 5})
    assert done == {"added": site.ids()[:2], "removed": [before[4]], "total": 21}
    assert get_json(site, PAGE)["data"][2]["attributes"]["price"] == 5


def test_a_bad_script_is_refused_and_the_old_one_stays(site: StandIn) -> None:
    site.faults([{"fault": "status", "status": 418}])
    connection = http.client.HTTPConnection("127.0.0.1", site.port, timeout=10)
    connection.request("PUT", "/_demo/faults", body=b'{"rules": [{"fault": "fire"}]}')
    answer = connection.getresponse()
    assert (answer.status, b"faults[0]" in answer.read()) == (400, True)
    connection.close()
    assert get(site, PAGE)[0].status == 418


def test_the_journal_tells_who_asked_what_when_and_beside_how_many(site: StandIn) -> None:
    """An answer that is larger than what lies between client and server is under way until it is read."""
    before = time.monotonic()
    connections = [http.client.HTTPConnection("127.0.0.1", site.port, timeout=30) for _ in range(3)]
    for number, connection in enumerate(connections, 1):
        headers = {"User-Agent": "tester"}
        connection.request("GET", f"{PAGE}&fault=huge,bytes={64 << 20}", headers=headers)
        wait_until(lambda number=number: site.counts()["under_way"] == number)
    for connection in connections:
        connection.getresponse().read()
        connection.close()
    wait_until(lambda: not site.counts()["under_way"])
    entries = site.journal()
    assert [entry["concurrency"] for entry in entries] == [1, 2, 3]
    assert {(entry["method"], entry["user_agent"], entry["status"]) for entry in entries} == {
        ("GET", "tester", 200)
    }
    assert all(before < entry["started"] < entry["ended"] < time.monotonic() for entry in entries)
    assert all(abs(entry["started_at"] - time.time()) < 60 for entry in entries)
    assert site.counts() == {"requests": 3, "pages": 3, "specs": 0, "robots": 0, "under_way": 0}
    site.reset_journal()
    assert site.journal() == []


def test_latency_is_added_to_every_answer(stand_in: Callable[..., StandIn]) -> None:
    site = stand_in(listings=5, latency=0.1)
    get(site, PAGE)
    assert site.journal()[0]["ended"] - site.journal()[0]["started"] >= 0.1


@pytest.mark.parametrize("wanted", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_with_status_0_also_while_a_request_hangs(
    wanted: signal.Signals, tmp_path: Path
) -> None:
    script, lines = tmp_path / "faults.json", tmp_path / "journal.jsonl"
    script.write_text('[{"match": "hanging", "fault": "hang"}]')
    command = [sys.executable, "-m", "carscraper.demo", f"--faults={script}", f"--journal={lines}"]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    port = int(process.stdout.readline().split(":")[2].split("/")[0])
    hanging = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    hanging.request("GET", "/hanging")
    finished = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    finished.request("GET", "/robots.txt")
    finished.getresponse().read()
    process.send_signal(wanted)
    rest, _ = process.communicate(timeout=10)
    hanging.close()
    finished.close()
    assert (process.returncode, rest) == (0, "")
    targets = [json.loads(line)["target"] for line in lines.read_text().splitlines()]
    assert sorted(targets) == ["/hanging", "/robots.txt"]


@pytest.mark.parametrize(
    ("option", "complaint"),
    [
        ("--listings=many", "--listings: not a whole number: 'many'"),
        ("--listings=-1", "--listings: not from 0"),
        ("--port=99999", "--port: not from 0 to 65535"),
        ("--latency=slow", "--latency: not a number of seconds"),
        ("--faults=/nowhere/faults.json", "--faults: /nowhere/faults.json: "),
        ("--journal=/nowhere/journal", "--journal: "),
        ("--host=256.0.0.1", "--host, --port: "),
    ],
)
def test_a_bad_option_is_refused_in_one_line(option: str, complaint: str) -> None:
    command = [sys.executable, "-m", "carscraper.demo", option]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=20, check=False)
    assert ended.returncode == 1
    assert ended.stdout == ""
    assert ended.stderr.startswith(f"error: {complaint}")
    assert ended.stderr.count("\n") == 1
