"""Requests through forward proxies: one from the environment or a pool; credentials are told to nobody else."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from scrapy import Request, Spider

from scrapy_durable.exceptions import CodecError, ConfigurationError
from scrapy_durable.frontier import codec
from scrapy_durable.proxies import Proxy, ProxyPool, read_proxy
from tests.crawling import wait_until
from tests.hostile.conftest import SECONDS, Start
from tests.hostile.tls_front import TlsFront
from tests.server_process import ServerProcess, wait_until_listening
from tests.standin import SPEC_PATH, StandIn

CANARY = "c4n4ry%73%33cret"
"""The password, as it is written in a URL."""
LEAKS = re.compile(r"c4n4ry|s3cret|dXNlcjp")
"""The password in any spelling, and how `user:` begins in base64."""


class TinyProxy(ServerProcess):
    """Debian's tinyproxy on a free port of 127.0.0.1, with one user; it can be killed and started again."""

    def __init__(self, directory: Path, password: str = "c4n4rys3cret") -> None:
        super().__init__()
        self._log = directory / f"tinyproxy-{self.port}.log"
        self._conf = directory / f"tinyproxy-{self.port}.conf"
        self._conf.write_text(
            f"Port {self.port}\nListen 127.0.0.1\nTimeout 60\nMaxClients 100\nAllow 127.0.0.1\n"
            f'BasicAuth user {password}\nLogFile "{self._log}"\nLogLevel Connect\n'
        )

    def url(self, password: str = CANARY) -> str:
        return f"http://user:{password}@127.0.0.1:{self.port}"

    @property
    def requests(self) -> int:
        return self._log.read_text().count("Request (file descriptor") if self._log.exists() else 0

    def start(self) -> None:
        binary = shutil.which("tinyproxy")
        assert binary, "make servers"
        self._process = subprocess.Popen([binary, "-d", "-c", str(self._conf)], stdout=subprocess.DEVNULL)
        wait_until_listening(self.port, self._process)


@pytest.fixture
def tinyproxies(tmp_path: Path) -> Iterator[Callable[[], TinyProxy]]:
    """Starts proxies; all of them are stopped when the test ends."""
    with ExitStack() as running:
        yield lambda: running.enter_context(TinyProxy(tmp_path))


def env(**variables: str) -> dict[str, str]:
    """An environment whose only proxy settings are these; the log says everything that it can."""
    none = dict.fromkeys(("http_proxy", "https_proxy", "no_proxy", "all_proxy"), "")
    return {**none, **{name.upper(): "" for name in none}, "LOG_LEVEL": "DEBUG", **variables}


def leaks(run: Any, *directories: Path) -> list[str]:
    """Where the password turns up: in the log, or in a file below the directories."""
    found = ["log"] if LEAKS.search(run.log) else []
    for directory in directories:
        for path in directory.rglob("*"):
            if path.is_file() and LEAKS.search(path.read_bytes().decode("latin-1")):
                found.append(str(path))
    return found


def test_the_proxy_of_the_environment_is_used_with_its_credentials(
    site: StandIn, start: Start, tinyproxies: Callable[[], TinyProxy], tmp_path: Path
) -> None:
    proxy = tinyproxies()
    site.faults([{"match": SPEC_PATH, "fault": "status", "times": 3}])
    run = start(env=env(http_proxy=proxy.url()), jobdir=tmp_path / "job")
    assert run.wait(SECONDS) == 0, run.log
    assert proxy.requests == len(site.journal())
    assert leaks(run, tmp_path / "data", tmp_path / "job") == []


def test_a_pool_serves_a_site_through_one_proxy(
    site: StandIn, start: Start, tinyproxies: Callable[[], TinyProxy], tmp_path: Path
) -> None:
    first, second = tinyproxies(), tinyproxies()
    run = start(env=env(DURABLE_PROXIES=f"{first.url()},{second.url()}"), jobdir=tmp_path / "job")
    assert run.wait(SECONDS) == 0, run.log
    assert (first.requests, second.requests) == (len(site.journal()), 0)
    assert leaks(run, tmp_path / "data", tmp_path / "job") == []


def test_a_refusal_by_the_proxy_is_not_taken_for_the_sites(
    site: StandIn, start: Start, tinyproxies: Callable[[], TinyProxy]
) -> None:
    for url in (tinyproxies().url(f"wrong-{CANARY}"), f"http://127.0.0.1:{tinyproxies().port}"):
        run = start(env=env(http_proxy=url), settings={"RETRY_TIMES": 1})
        assert run.wait(SECONDS) == 1, run.log
        assert run.run_json()["status"] == "stopped: robots_unavailable"
    assert site.journal() == []


def test_a_proxy_that_fails_rests_and_another_takes_its_place(
    site: StandIn, start: Start, tinyproxies: Callable[[], TinyProxy], tmp_path: Path
) -> None:
    gone, strict, closed, works = TinyProxy(tmp_path), tinyproxies(), tinyproxies(), tinyproxies()
    pool = f"{gone.url()} {strict.url(f'wrong-{CANARY}')} http://127.0.0.1:{closed.port} {works.url()}"
    run = start(env=env(DURABLE_PROXIES=pool), jobdir=tmp_path / "job")
    assert run.wait(SECONDS) == 0, run.log
    assert f"The proxy http://127.0.0.1:{gone.port} rests for 30 s: it cannot be reached" in run.log
    assert (
        f"The proxy http://127.0.0.1:{strict.port} rests for 30 s: it wants other credentials (status 401)"
        in run.log
    )
    assert (
        f"The proxy http://127.0.0.1:{closed.port} rests for 30 s: it wants other credentials (status 407)"
        in run.log
    )
    assert works.requests == len(site.journal())
    assert sorted(run.cars()) == sorted(site.ids())
    assert leaks(run, tmp_path / "data", tmp_path / "job") == []


def test_while_all_proxies_rest_nothing_is_asked_and_nothing_is_lost(
    site: StandIn, start: Start, tinyproxies: Callable[[], TinyProxy]
) -> None:
    proxy = tinyproxies()
    site.faults([{"match": SPEC_PATH, "fault": "hang", "after": 12}])
    settings: dict[str, object] = {"DURABLE_PROXY_COOLDOWN": 1, "CONCURRENT_REQUESTS_PER_DOMAIN": 4}
    run = start(env=env(DURABLE_PROXIES=proxy.url()), settings=settings)
    wait_until(lambda: len(site.journal()) >= 15 or not run.running)
    proxy.kill()
    site.faults([])
    rests = f"The proxy http://127.0.0.1:{proxy.port} rests for"
    wait_until(lambda: rests in run.log or not run.running)
    proxy.start()
    assert run.wait(SECONDS) == 0, run.log
    assert rests in run.log
    assert sorted(run.cars()) == sorted(site.ids())


def test_proxies_that_stay_broken_stop_the_crawl_before_anything_is_given_up(
    site: StandIn, start: Start, tmp_path: Path
) -> None:
    pool = " ".join(TinyProxy(tmp_path).url() for _ in range(2))
    settings = {"DURABLE_PROXY_COOLDOWN": 0.1, "RETRY_TIMES": 2, "ROBOTSTXT_OBEY": False}
    run = start(env=env(DURABLE_PROXIES=pool), settings=settings, jobdir=tmp_path / "job")
    assert run.wait(SECONDS) == 1, run.log
    assert run.run_json()["status"] == "stopped: proxies_failed"
    assert run.run_json()["given_up"] == []
    assert leaks(run, tmp_path / "data", tmp_path / "job") == []

    again = start(env=env(), settings=settings, jobdir=tmp_path / "job")
    assert again.wait(SECONDS) == 0, again.log


@pytest.fixture
def front(site: StandIn, tmp_path: Path) -> Iterator[TlsFront]:
    """The stand-in, behind TLS."""
    (tmp_path / "tls").mkdir()
    with TlsFront(site.port, tmp_path / "tls") as running:
        yield running


@pytest.mark.parametrize("name", ["https_proxy", "DURABLE_PROXIES"])
def test_a_tunnel_leads_to_the_site_and_the_credentials_no_further_than_to_the_proxy(
    site: StandIn,
    front: TlsFront,
    start: Start,
    tinyproxies: Callable[[], TinyProxy],
    tmp_path: Path,
    name: str,
) -> None:
    proxy = tinyproxies()
    run = start(
        api_url=f"https://127.0.0.1:{front.port}/fw/public",
        env=env(**{name: proxy.url(), "SSL_CERT_FILE": str(front.certificate)}),
        jobdir=tmp_path / "job",
    )
    assert run.wait(SECONDS) == 0, run.log
    assert sorted(run.cars()) == sorted(site.ids())
    assert proxy.requests == front.connections > 0
    assert front.asked.count(b"GET /") == len(site.journal())
    assert not LEAKS.search(front.asked.decode("latin-1"))
    assert b"proxy-authorization" not in front.asked.lower()
    assert leaks(run, tmp_path / "data", tmp_path / "job") == []


def test_a_site_whose_certificate_nobody_knows_is_not_asked_through_a_tunnel_either(
    site: StandIn, front: TlsFront, start: Start, tinyproxies: Callable[[], TinyProxy]
) -> None:
    """The counterpart: the tunnel is open, but certificates are verified."""
    run = start(
        api_url=f"https://127.0.0.1:{front.port}/fw/public",
        env=env(https_proxy=tinyproxies().url()),
        settings={"RETRY_TIMES": 1},
    )
    assert run.wait(SECONDS) == 1, run.log
    assert "CERTIFICATE_VERIFY_FAILED" in run.log
    assert site.journal() == []


@pytest.mark.parametrize("name", ["https_proxy", "DURABLE_PROXIES"])
def test_a_tunnel_that_is_refused_tells_no_password(
    site: StandIn, start: Start, tinyproxies: Callable[[], TinyProxy], tmp_path: Path, name: str
) -> None:
    proxy = tinyproxies()
    settings = {"RETRY_TIMES": 1, "DURABLE_PROXY_COOLDOWN": 0.1, "ROBOTSTXT_OBEY": False}
    run = start(
        api_url=f"https://127.0.0.1:{site.port}/fw/public",
        env=env(**{name: proxy.url(f"wrong-{CANARY}")}),
        settings=settings,
        jobdir=tmp_path / "job",
    )
    assert run.wait(SECONDS) == 1, run.log
    assert "401" in run.log
    assert leaks(run, tmp_path / "data", tmp_path / "job") == []


@pytest.mark.parametrize("name", ["http_proxy", "DURABLE_PROXIES"])
def test_a_proxy_that_is_none_is_refused_by_name_only(start: Start, name: str) -> None:
    run = start(env=env(**{name: f"http://user:{CANARY}@127.0.0.1:port"}))
    assert run.wait(SECONDS) == 2, run.log
    assert name in run.log
    assert leaks(run) == []


def test_the_search_for_leaks_finds_them(tmp_path: Path) -> None:
    """The counterpart."""
    (tmp_path / "payload").write_bytes(b'\x00{"Proxy-Authorization": "Basic dXNlcjpjNG4="}')

    class Run:
        log = f"Cannot connect to http://user:{CANARY}@127.0.0.1"

    assert leaks(Run, tmp_path) == ["log", str(tmp_path / "payload")]


@pytest.mark.parametrize(
    "url",
    [
        "",
        "127.0.0.1:3128",
        "socks5://127.0.0.1:1080",
        "http://:3128",
        "http://host:0",
        "http://host:99999",
        "http://host/path",
        "http://host?query",
        "http://ho st",
    ],
)
def test_what_is_no_proxy_is_refused(url: str) -> None:
    with pytest.raises(ConfigurationError, match=r"^DURABLE_PROXIES\[1\]: a proxy is written"):
        read_proxy(url, "DURABLE_PROXIES[1]")


def test_a_proxy_keeps_its_credentials_apart() -> None:
    proxy = read_proxy("http://us%3Aer:pass%40word@[::1]:3128/", "DURABLE_PROXIES[0]")
    assert proxy.address == "http://[::1]:3128"
    assert proxy.authorization == "Basic dXM6ZXI6cGFzc0B3b3Jk"
    assert read_proxy("http://proxy.example.com", "").authorization is None


def pool_of(number: int, cooldown: float = 10.0) -> ProxyPool:
    return ProxyPool([Proxy(f"http://proxy{at}", None) for at in range(number)], cooldown)


def test_a_slot_stays_with_its_proxy_and_slots_are_spread() -> None:
    pool = pool_of(3)
    assert [pool.choose(slot, 0) for slot in "abcabc"] == [0, 1, 2, 0, 1, 2]


def test_a_proxy_rests_twice_as_long_each_time_but_counts_a_failure_once() -> None:
    pool = pool_of(1)
    assert pool.choose("a", 0) == 0
    assert [pool.note_failure(0, now) for now in (0, 1, 9.9)] == [10, 0, 0]
    assert pool.choose("a", 9.9) is None
    assert pool.rest(4) == 6
    pool.note_success(0, 5)
    assert pool.note_failure(0, 10) == 20
    pool.note_success(0, 30)
    assert pool.note_failure(0, 31) == 10


def test_no_proxy_rests_for_ever() -> None:
    pool, now = pool_of(1, 600.0), 0.0
    for _ in range(2000):
        assert pool.note_failure(0, now) == 600
        now += 600


def test_a_slot_moves_on_when_its_proxy_fails_and_stays_there() -> None:
    pool = pool_of(2)
    assert pool.choose("a", 0) == 0
    pool.note_failure(0, 0)
    assert pool.choose("a", 1) == 1
    assert pool.choose("a", 100) == 1


class Named(Spider):
    name = "named"


def test_what_a_middleware_chose_is_not_written_down() -> None:
    chosen = {"proxy": "http://127.0.0.1:1", "_auth_proxy": "http://127.0.0.1:1", "mine": 1}
    for mark in ({"_scheme_proxy": True}, {"_pool_proxy": 0}):
        request = Request("http://a/", headers={"Proxy-Authorization": "Basic eA=="}, meta={**chosen, **mark})
        written = codec.decode(codec.encode(request, Named()), Named())
        assert written.meta == {"mine": 1}
        assert not written.headers


def test_a_proxy_that_a_spider_chose_is_written_down_unless_it_has_credentials() -> None:
    kept = Request("http://a/", meta={"proxy": "http://127.0.0.1:1"})
    assert codec.decode(codec.encode(kept, Named()), Named()).meta == kept.meta
    for refused in (
        Request("http://a/", meta={"proxy": f"http://user:{CANARY}@127.0.0.1:1"}),
        Request("http://a/", headers={"proxy-authorization": "Basic dXNlcjp4"}),
    ):
        with pytest.raises(CodecError, match="credentials are not written down") as caught:
            codec.encode(refused, Named())
        assert not LEAKS.search(str(caught.value))
