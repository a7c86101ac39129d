"""Each alert fires on what a real crawl serves when it should, and none on that of a healthy one.

What was scraped of crawls is told to `promtool test rules` as series: a minute between two scrapes, and on as it went
between them. Promtool's clock begins at 0, so times since the epoch are told as seconds since the scrape.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.crawling import crawl, wait_until
from tests.metrics.served import Exporter, Samples, scrape
from tests.redis_server import RedisServer
from tests.server_process import hold_port
from tests.standin import ROOT, StandIn

DEPLOY = ROOT / "deploy" / "prometheus"
SLOW = {"CARS_PAGE_SIZE": 10, "CONCURRENT_REQUESTS": 4, "CONCURRENT_REQUESTS_PER_DOMAIN": 4}
FAILING = {**SLOW, "RETRY_TIMES": 999, "DURABLE_MAX_ATTEMPTS": 999, "DURABLE_RETRY_MAX_DELAY": 0.2}
ANSWERS, FAILURES = "scrapy_durable_answers_total", "scrapy_durable_failures_total"
UP, SILENT = "scrapy_durable_frontier_up", 'scrapy_durable_workers{state="silent"}'
STALLED = 'scrapy_durable_crawl_state{state="stalled"}'
BEHIND = 'scrapy_durable_store_behind_records{store="PostgreSQL"}'
MINUTES = 100
"""That are told: longer than any alert waits but that of a crawl that is late."""
LATE = 27 * 60


@dataclass(frozen=True)
class Scraped:
    """Two scrapes of a situation, and when the second was."""

    first: Samples
    second: Samples
    at: float


def scraped(address: str, *conditions: Callable[[Samples], object]) -> Scraped:
    """The scrapes for which the conditions were first true, one after the other."""
    found: list[Samples] = []
    for condition in conditions:

        def holds(condition: Callable[[Samples], object] = condition) -> bool:
            samples = scrape(address)
            if condition(samples):
                found.append(samples)
                return True
            return False

        wait_until(holds, what=f"what is scraped for {condition.__name__}", every=0.1)
    return Scraped(found[0], found[-1], time.time())


@pytest.fixture(scope="module")
def situations(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Scraped]:
    """Everything that is scraped, of three crawls on one Redis."""
    path = tmp_path_factory.mktemp("alerts")
    found = {}
    with RedisServer() as redis, StandIn(20) as small, StandIn(2000, latency=0.4) as site:
        seen = {"REDIS_URL": redis.url, "CARS_OUTPUT_DIR": path}
        quick = {**seen, "DURABLE_LEASE_SECONDS": 1}
        with Exporter(seen, path / "usual.log") as usual, Exporter(quick, path / "quick.log") as sooner:
            with crawl(small.url, path, redis_url=redis.url, settings=SLOW) as run:
                assert run.wait(60) == 0, run.log
            with crawl(site.url, path, redis_url=redis.url, settings=SLOW) as run:
                found["healthy"] = healthy = scraped(
                    usual, lambda now: now.get(ANSWERS), lambda now: now.get(ANSWERS, 0) > 20
                )
                assert healthy.second[ANSWERS] > healthy.first[ANSWERS], run.log
                run.kill()
            found["killed"] = scraped(sooner, lambda now: now.get(STALLED) and now[SILENT] == 1)
            with redis.client() as client:
                client.flushall()
            found["failing"] = failing(usual, redis, site, path)
            redis.kill()
            found["no Redis"] = scraped(usual, lambda now: now[UP] == 0)
    return found


def failing(address: str, redis: RedisServer, site: StandIn, path: Path) -> Scraped:
    """Half of all specifications fail, and a database is not there."""
    site.faults([{"match": "/specs/.*[13579]$", "fault": "status", "status": 503}])
    settings = {**FAILING, "CARS_BATCH_SECONDS": 0.1}
    begun: dict[str, float] = {}

    def begins(now: Samples) -> bool:
        if now.get(FAILURES, 0) > 0 and now.get(BEHIND, 0) > 0:
            begun.update(now)
        return bool(begun)

    def goes_on(now: Samples) -> bool:
        failed, answered = (now.get(name, 0) - begun[name] for name in (FAILURES, ANSWERS))
        return failed >= 10 and failed > 0.3 * answered and now.get(BEHIND, 0) > 0

    with hold_port() as nobody:
        env = {"POSTGRES_DSN": f"postgresql://nobody@127.0.0.1:{nobody.getsockname()[1]}/cars"}
        with crawl(site.url, path / "failing", redis_url=redis.url, settings=settings, env=env):
            return scraped(address, begins, goes_on)


def wrongly_told(
    alerts: set[str], found: Scraped, path: Path, *, minutes: int = MINUTES, ends: int | None = None
) -> str:
    """What promtool has against these alerts, and no others, firing after so many minutes; empty: nothing. With
    `ends`, nothing is scraped after so many.
    """
    series = []
    for name, last in found.second.items():
        value, step = last, 0.0
        family, _, labels = name.partition("{")
        if family.endswith("_total"):
            step = last - found.first.get(name, 0.0)
        elif family.endswith("_timestamp_seconds"):
            value -= found.at
        values = f"{value:f}{step:+f}x{ends or minutes}"
        series.append({"series": f'{family}{{job="cars",{labels or "}"}', "values": values})
    expected = {
        "expr": 'count by (alertname) (ALERTS{alertstate="firing"})',
        "eval_time": f"{minutes}m",
        "exp_samples": [{"labels": f'{{alertname="{alert}"}}', "value": 1} for alert in alerts],
    }
    test = {"interval": "1m", "input_series": series, "promql_expr_test": [expected]}
    document = {"rule_files": ["rules.yml"], "evaluation_interval": "1m", "tests": [test]}
    shutil.copy(DEPLOY / "rules.yml", path)
    (path / "test.yml").write_text(json.dumps(document))  # JSON is YAML
    done = subprocess.run(
        ["promtool", "test", "rules", path / "test.yml"], capture_output=True, text=True, check=False
    )
    return done.stdout + done.stderr if done.returncode else ""


def test_a_healthy_crawl_fires_none(situations: dict[str, Scraped], tmp_path: Path) -> None:
    assert not wrongly_told(set(), situations["healthy"], tmp_path)


def test_a_crawl_whose_worker_was_killed_is_stalled_and_its_worker_silent(
    situations: dict[str, Scraped], tmp_path: Path
) -> None:
    assert not wrongly_told({"CrawlStalled", "CrawlWorkerSilent"}, situations["killed"], tmp_path)


def test_a_site_that_fails_and_a_database_that_is_down_are_told_of(
    situations: dict[str, Scraped], tmp_path: Path
) -> None:
    assert not wrongly_told({"CrawlFailuresHigh", "CrawlStoreBehind"}, situations["failing"], tmp_path)


def test_a_day_and_two_hours_after_the_last_complete_crawl_it_is_late(
    situations: dict[str, Scraped], tmp_path: Path
) -> None:
    assert not wrongly_told({"CrawlLate"}, situations["healthy"], tmp_path, minutes=LATE)


def test_a_frontier_that_does_not_answer_is_told_of(situations: dict[str, Scraped], tmp_path: Path) -> None:
    assert not wrongly_told({"CrawlFrontierDown"}, situations["no Redis"], tmp_path)


def test_metrics_that_end_are_missed(situations: dict[str, Scraped], tmp_path: Path) -> None:
    assert not wrongly_told({"CrawlMetricsAbsent"}, situations["healthy"], tmp_path, ends=MINUTES // 2)


def test_alerts_that_do_not_fire_or_fire_as_well_are_found(
    situations: dict[str, Scraped], tmp_path: Path
) -> None:
    """The counterpart."""
    assert "CrawlLate" in wrongly_told({"CrawlLate"}, situations["healthy"], tmp_path)
    assert "CrawlWorkerSilent" in wrongly_told({"CrawlStalled"}, situations["killed"], tmp_path)
