"""`/metrics` and `/healthcheck` of real crawls, by the real command line, and what is refused."""

from __future__ import annotations

import socket
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from tests.crawling import HANGS, crawl, wait_until
from tests.metrics.served import (
    Exporter,
    address_in,
    environment,
    get,
    health,
    metrics_text,
    queue_metrics,
    samples_in,
    scrape,
)
from tests.redis_server import RedisServer
from tests.standin import ROOT, StandIn

DONE = "scrapy_durable_requests_done_total"
SLOW = {"CARS_PAGE_SIZE": 10, "CONCURRENT_REQUESTS": 4, "CONCURRENT_REQUESTS_PER_DOMAIN": 4}


def refused(settings: Mapping[str, object], *options: str, env: Mapping[str, str] | None = None) -> str:
    """What `scrapy queue metrics` says when it does not serve."""
    done = subprocess.run(
        queue_metrics(settings, *options),
        cwd=ROOT,
        env={**environment(), **(env or {})},
        capture_output=True,
        text=True,
        timeout=HANGS,
        check=False,
    )
    assert done.returncode == 2, done.stdout + done.stderr
    assert done.stderr.count("\n") == 1, done.stderr
    return done.stderr


@pytest.fixture
def without_client(tmp_path: Path) -> dict[str, str]:
    """An environment in which `prometheus_client` is not installed."""
    (tmp_path / "prometheus_client.py").write_text("raise ImportError('not installed')\n")
    return {"PYTHONPATH": str(tmp_path)}


def test_a_crawl_serves_what_it_does_and_so_does_a_process_beside_it(tmp_path: Path) -> None:
    job, out = tmp_path / "job", tmp_path / "out"
    seen = {"JOBDIR": job, "CARS_OUTPUT_DIR": out}
    with StandIn(2000, latency=0.4) as site, Exporter(seen, tmp_path / "exporter.log") as beside:
        status, told = health(beside)
        assert (status, told["status"], told["state"]) == (200, "ok", "nothing here")
        settings = {**SLOW, "DURABLE_METRICS_PORT": 0}
        with crawl(site.url, out, jobdir=job, settings=settings) as run:
            wait_until(lambda: address_in(run.log) or not run.running, what="where its metrics are")
            own = address_in(run.log)
            assert own is not None, run.log
            wait_until(lambda: scrape(own).get(DONE, 0) > 2, what="metrics of a crawl at work", every=0.1)
            wait_until(lambda: scrape(beside).get(DONE, 0) > 2, what="the same from outside", every=0.1)
            text = metrics_text(own)
            samples = samples_in(text)
            assert samples["process_resident_memory_bytes"] > 1e7
            assert samples["scrapy_durable_process_requests_total"] > 2
            assert samples['scrapy_durable_slot_cap{slot="127.0.0.1"}'] == 4
            assert samples["scrapy_durable_items_expected"] == 2000
            assert 'scrapy_durable_workers{state="living"} 1.0' in metrics_text(beside)
            assert "scrapy_durable_process_" not in metrics_text(beside)
            assert site.url not in text
            check = ["promtool", "check", "metrics"]
            for served in (text, metrics_text(beside)):
                done = subprocess.run(check, input=served, capture_output=True, text=True, check=False)
                assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
            assert get(f"{own}/healthcheck") == (200, b'{"status":"ok"}')
            status, told = health(own)
            assert (status, told["status"], told["checks"]["frontier"]["ok"]) == (200, "ok", True)
            assert get(f"{own}/other")[0] == 404

            port = int(own.rpartition(":")[2])
            second = {"CARS_PAGE_SIZE": 100, "DURABLE_METRICS_PORT": port}
            with crawl(site.url, tmp_path / "second", "-a", "limit=20", settings=second) as other:
                assert other.wait(60) == 0, other.log
                assert f"No metrics at 127.0.0.1:{port}: " in other.log
                assert "Traceback" not in other.log
            assert "No metrics at" not in run.log


def test_health_tells_of_a_queue_that_is_away_and_back(tmp_path: Path) -> None:
    with RedisServer() as redis:
        seen = {"REDIS_URL": redis.url, "CARS_OUTPUT_DIR": tmp_path}
        with Exporter(seen, tmp_path / "exporter.log") as beside:
            assert health(beside)[0] == 200
            redis.kill()
            wait_until(lambda: health(beside)[0] == 503, what="that Redis is away is told", every=0.1)
            why = health(beside)[1]["checks"]["frontier"]["why"]
            assert why, "it says why"
            assert scrape(beside)["scrapy_durable_frontier_up"] == 0
            assert get(f"{beside}/healthcheck")[0] == 200, "the process itself is well"
            redis.start()
            wait_until(lambda: health(beside)[0] == 200, what="that Redis is back is told", every=0.1)


def test_what_cannot_be_served_is_refused_in_one_line(tmp_path: Path, without_client: dict[str, str]) -> None:
    seen = {"JOBDIR": tmp_path / "job", "CARS_OUTPUT_DIR": tmp_path}
    assert "--port" in refused(seen)
    assert "--port: from 0 to 65535, not 70000" in refused(seen, "--port", "70000")
    assert "DURABLE_METRICS_PORT: a number is needed, not 'x'" in refused(
        {**seen, "DURABLE_METRICS_PORT": "x"}
    )
    assert "REDIS_URL or JOBDIR" in refused({"CARS_OUTPUT_DIR": tmp_path}, "--port", "0")
    assert "prometheus-client, which is not installed" in refused(seen, "--port", "0", env=without_client)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        assert f"no metrics at 127.0.0.1:{port}: " in refused(seen, "--port", port)


def test_a_crawl_that_is_told_to_serve_metrics_without_the_package_does_not_begin(
    stand_in: Callable[..., StandIn], tmp_path: Path, without_client: dict[str, str]
) -> None:
    site = stand_in(20)
    settings = {"DURABLE_METRICS_PORT": 0}
    with crawl(site.url, tmp_path / "out", settings=settings, env=without_client) as run:
        assert run.wait(60) != 0, run.log
        assert "prometheus-client, which is not installed" in run.log
        assert "Traceback" not in run.log
    assert site.counts()["requests"] == 0
    with crawl(site.url, tmp_path / "out", env=without_client) as run:
        assert run.wait(60) == 0, run.log
    assert (tmp_path / "out" / "cars.json").exists()
