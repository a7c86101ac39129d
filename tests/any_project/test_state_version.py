"""A crawl that another release has left is refused in one line, before anything is asked of the site."""

from __future__ import annotations

import sqlite3
import subprocess
from contextlib import closing

import pytest

from tests.any_project.conftest import MakeProject
from tests.any_project.project import PYTHON, Project, environment
from tests.any_project.shop import Shop
from tests.any_project.variants import ALONE, SHARED
from tests.redis_server import RedisServer

pytestmark = pytest.mark.usefixtures("addon")

ONE_WORKER = [ALONE, SHARED[0]]


@pytest.fixture
def left_behind(project: MakeProject, shop: Shop, request: pytest.FixtureRequest) -> Project:
    """A crawl that was killed."""
    durable = project("quotes", request.param)
    shop.gate(20)
    run = durable.start()
    assert shop.wait_until_held(lambda: not run.running), run.log
    run.kill()
    shop.reset()
    return durable


def change_version(durable: Project, server: RedisServer, by: int) -> None:
    """Make its state one of another release."""
    if (file := durable.path / "job" / "frontier.sqlite").exists():
        with closing(sqlite3.connect(file)) as connection:
            (version,) = connection.execute("PRAGMA user_version").fetchone()
            connection.execute(f"PRAGMA user_version = {version + by}")
    else:
        with server.client() as client:
            client.hincrby("{quotes}:crawl", "version", by)


def kept(durable: Project, server: RedisServer) -> dict[str, bytes]:
    """All that is kept of it."""
    if (job := durable.path / "job").exists():
        return {str(path): path.read_bytes() for path in sorted(job.rglob("*")) if path.suffix == ".sqlite"}
    with server.client() as client:
        return {key: client.dump(key) for key in client.scan_iter()}


@pytest.mark.parametrize(("by", "release"), [(-1, "an older release"), (1, "a newer release")])
@pytest.mark.parametrize("left_behind", ONE_WORKER, ids=str, indirect=True)
def test_state_of_another_release_is_refused_in_one_line_before_anything_is_asked(
    left_behind: Project, by: int, release: str, shop: Shop, redis_server: RedisServer
) -> None:
    change_version(left_behind, redis_server, by)
    before = kept(left_behind, redis_server)
    refused = left_behind.start()
    assert refused.wait() == 2, refused.log
    (line,) = [line for line in refused.log.splitlines() if release in line]
    assert "finish it with that release, or " in line
    assert "Traceback" not in refused.log
    assert shop.journal() == []
    done = queue(left_behind, "retry-dead")
    assert (done.returncode, release in done.stderr, done.stderr.count("\n")) == (2, True, 1), done.stderr
    assert kept(left_behind, redis_server) == before


@pytest.mark.parametrize("left_behind", [SHARED[0]], ids=str, indirect=True)
def test_what_another_release_has_left_on_redis_can_be_forgotten(
    left_behind: Project, shop: Shop, redis_server: RedisServer
) -> None:
    change_version(left_behind, redis_server, 1)
    done = queue(left_behind, "forget", "--yes")
    assert (done.returncode, done.stdout) == (0, "forgotten; the next run starts afresh\n"), done.stderr
    afresh = left_behind.start()
    assert afresh.wait() == 0, afresh.log
    assert "Beginning crawl" in afresh.log


def queue(durable: Project, *arguments: str) -> subprocess.CompletedProcess[str]:
    """`scrapy queue`."""
    command = [PYTHON, "-m", "scrapy", "queue", *arguments, "--spider", durable.name]
    return subprocess.run(command, cwd=durable.path, env=environment(), capture_output=True, text=True)
