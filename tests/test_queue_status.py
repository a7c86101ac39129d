"""`scrapy queue status` says why sites wait, what failed and who holds what, to people and to machines."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path

from scrapy_durable.frontier.contract import (
    Counts,
    DeadLettered,
    Entry,
    HeldLease,
    Outbox,
    Pause,
    Retry,
    SlotLimit,
    SlotWait,
    Status,
)
from scrapy_durable.frontier.sqlite import SqliteFrontier
from scrapy_durable.status.lines import status_lines
from scrapy_durable.status.report import report_of
from tests.standin import ROOT

SECONDS = 120
NOTHING = Counts(0, 0, 0, 0, 0)


def shown(leases: list[HeldLease] | None = None, **facts: object) -> list[str]:
    """The lines that these facts bring."""
    slots = dict.fromkeys(facts.get("waits", {}), NOTHING)  # type: ignore[call-overload]

    def lines(**more: object) -> list[str]:
        status = Status("crawl", NOTHING, 0, None, slots, {}, [], 0, now=1000.0, **more)  # type: ignore[arg-type]
        return list(status_lines(report_of(status, None, 60.0, {})))

    return [line for line in lines(leases=leases or [], **facts) if line not in lines()]


def test_each_way_to_wait_has_its_words() -> None:
    assert shown(
        waits={
            "a": SlotWait("cap", None, "", 8, 0.0, 8),
            "b": SlotWait("interval", 1001.5, "", 8, 2.0, 1),
            "c": SlotWait("pause", 1060.0, "the site asks to wait", 8, 2.0, 0),
            "d": SlotWait("pause", 1002.0, "", 8, 2.0, 0),
        }
    ) == [
        "slot a: 8 in flight of 8; waits: all 8 places are taken",
        "slot b: 1 in flight of 8, one request in 2 s; waits 1.5 s",
        "slot c: 0 in flight of 8, one request in 2 s; waits: the site asks to wait, 60 s left",
        "slot d: 0 in flight of 8, one request in 2 s; waits: paused, 2.0 s left",
    ]


def test_of_many_sites_and_reasons_the_first_are_shown() -> None:
    lines = shown(waits={f"s{n:02}": SlotWait("pause", 1001.0 + n, "", 0, 0.0, 0) for n in range(25)})
    assert (len(lines), lines[0]) == (21, "slot s00: 0 in flight; waits: paused, 1.0 s left")
    assert lines[-1] == "5 more slots are asked, or wait"
    lines = shown(retried={f"fault {n:02}": n for n in range(1, 13)})
    assert lines[0] == "queued again 12 times: fault 12"
    assert lines[-1] == "queued again 3 times: for 2 other reasons"


def test_the_oldest_leases_are_shown_by_their_address() -> None:
    lease = HeldLease(1, 1, "a", "parse", "w1", 2, 1, 900.0, 1100.0, False, b'{"url":"https://a/1"}')
    other = HeldLease(2, 2, "a", "parse", "w1", 1, 0, 999.0, 1100.0, False, b"\xff")
    assert shown(leases=[lease, *[other] * 9])[:2] == [
        "leased 100 s ago to w1, attempt 2: https://a/1",
        "leased 1 s ago to w1, attempt 1: (unreadable)",
    ]
    assert len(shown(leases=[lease, *[other] * 9])) == 5


async def a_crawl(path: Path) -> None:
    frontier = SqliteFrontier(path, worker="w1", limits={"b": SlotLimit(1)}, default_limit=SlotLimit(0))
    await frontier.begin("crawl")
    entries = [Entry(key, "a", "parse", b'{"v":1,"url":"https://a/%d"}' % key) for key in range(4)]
    leases = (await frontier.exchange(Outbox(entries=entries), 3)).leases
    await frontier.exchange(
        Outbox(
            retries=[Retry(leases[0].held, 0, "status 503")],
            dead_lettered=[DeadLettered(leases[1].held, "status 404; body begins b'x'")],
            pauses={"a": Pause(1e6, "the site asks to wait")},
        ),
        0,
    )
    await frontier.close()


def test_the_command_shows_it_to_people_and_to_machines(tmp_path: Path) -> None:
    asyncio.run(a_crawl(tmp_path / "frontier.sqlite"))

    def queue_status(*options: str, status: int = 0) -> str:
        command = [sys.executable, "-m", "scrapy", "queue", "status", *options, "-s", f"JOBDIR={tmp_path}"]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=SECONDS, check=False)
        assert done.returncode == status, done.stderr
        return done.stdout or done.stderr

    told = queue_status()
    assert "slot a: 1 in flight; waits: the site asks to wait, 12 d left\n" in told
    assert "queued again 1 times: status 503\n" in told
    assert "dead-lettered 1 times: status 404\n" in told
    assert " ago to w1, attempt 1: https://a/2\n" in told
    found = json.loads(queue_status("--json"))
    assert (found["retried"], found["dead_lettered"]) == ({"status 503": 1}, {"status 404": 1})
    assert found["waits"]["a"]["why"] == "pause"
    [lease] = found["leases"]
    assert (lease["url"], lease["worker"], lease["attempt"]) == ("https://a/2", "w1", 1)
    assert lease["since"] < lease["deadline"]
    assert json.loads(queue_status("--json", "--limit", "0"))["leases"] == []
    assert queue_status("--limit", "-1", status=2) == "error: --limit: 0 or more, not -1\n"
