"""A clock that is set back while a crawl can go on, a machine's or Redis': nothing waits an hour, and it is said."""

from __future__ import annotations

import re
import signal
from contextlib import ExitStack
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from tests.crawl.conftest import LISTINGS, SECONDS, Site, Start
from tests.crawling import records, wait_until
from tests.redis_server import RedisServer
from tests.wrong_clock import runner

HOUR = 3600


@pytest.mark.parametrize("where", ["JOBDIR", "Redis"])
def test_what_waits_comes_in_time_when_the_clock_is_set_back(
    site: Site, start: Start, tmp_path: Path, where: str
) -> None:
    """A pause of the site, and a request that is put off: by the clock, the first run ends an hour after the second."""
    site.standin.faults(
        [{"match": "/specs/", "fault": "status", "status": 503, "retry_after": "4", "times": 1}]
    )
    with ExitStack() as running:
        if where == "Redis":
            options: dict[str, Any] = {"redis_url": running.enter_context(RedisServer()).url}
        else:
            options = {"jobdir": tmp_path / "job"}
        first = start(**options)
        wait_until(lambda: "The site asks to wait for 4 s" in first.log, SECONDS, what="the pause")
        first.send(signal.SIGTERM)
        assert first.wait(SECONDS) == 1, first.log
        second = start(**options, runner=runner(-HOUR, of_redis=where == "Redis"))
        assert second.wait(SECONDS) == 0, second.log
    (said,) = re.findall(r"WARNING: The clock was set back by (\d+) s", second.log)
    assert 0 < int(said) <= HOUR  # less what has passed between the two
    assert len(second.cars()) == LISTINGS
    run = second.run_json()
    assert run["started_at"] <= run["ended_at"]
    began = datetime.strptime(run["crawl_id"].partition("-")[0], "%Y%m%dT%H%M%SZ")
    assert all(record["scraped_at"] >= began.isoformat() for record in records(second.output_dir))
