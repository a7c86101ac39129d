"""Five kills and a Ctrl-C at moments that the site decides: after so many answers, while it holds back all others.

The Ctrl-C is for stock Scrapy, whose `JOBDIR` knows little of a crawl that never stopped cleanly (it buffers what it
has seen, and writes its queue's state at the end): one that is killed before begins again, one that is killed after
loses.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from tests.any_project.project import Project, Run
from tests.any_project.shop import Asked, Shop
from tests.crawling import wait_until

KILLS = 5
SURE_ANSWERS = 10
"""The Ctrl-C and the last kill come after so many answers at least: when the queue has something to lose."""
START_ELEMENTS = 1
"""What the frontier counts as done beside requests: the spider's `start()`, once for all workers (decision 0033)."""
_POLL = 0.05
"""Seconds between two looks at what the site has noted, which is some hundred requests long."""


@dataclass(frozen=True)
class Whole:
    """What an uninterrupted crawl of stock Scrapy has: its items, and what it was answered."""

    items: list[str]
    answered: Counter[Asked]


@dataclass(frozen=True)
class Stop:
    """Kill `worker` once `answers` more are given; None: stop all of them by Ctrl-C, and have them end in peace.

    With `settled`, once the frontier has been told of all answers.
    """

    answers: int
    worker: int | None
    settled: bool


def stops(seed: int, total: int, *, workers: int = 1, settled: bool = False) -> list[Stop]:
    """Where to stop a crawl of `total` requests: before its first answer or later, never at its end. `settled` stops
    are kills only.
    """
    chance = random.Random(seed)
    found = [Stop(chance.randint(0, total // 10), chance.randrange(workers), settled) for _ in range(KILLS)]
    found[-1] = replace(found[-1], answers=max(found[-1].answers, SURE_ANSWERS))
    if not settled:
        ctrl_c = Stop(chance.randint(SURE_ANSWERS, SURE_ANSWERS + 5), None, settled)
        found.insert(chance.randrange(KILLS), ctrl_c)
    return found


def start_missing(project: Project, runs: list[Run], workers: int) -> None:
    """Start each worker that does not run, by the same command."""
    for worker in range(workers):
        if worker == len(runs):
            runs.append(project.start(worker))
        elif not runs[worker].running:
            runs[worker] = project.start(worker)


def crawl_through(
    project: Project, shop: Shop, plan: Sequence[Stop], *, workers: int = 1, may_lose: bool = False
) -> list[Run]:
    """Stop the crawl as planned, starting it again by the same command each time; returns the last processes.

    They are open, and the site holds back all that they ask for. `may_lose`: a crawl that ends
    before it is stopped, since it has lost what there was to do, or that is broken, is just started again.
    """
    runs: list[Run] = []
    for stop in plan:
        shop.gate(stop.answers)
        start_missing(project, runs, workers)
        if not shop.wait_until_held(lambda: all(is_over(run, may_lose) for run in runs)):
            assert may_lose, f"the crawl has ended before its end:\n{runs[0].log}"
            finish(runs, shop, may_lose=True)
            continue
        if stop.settled:
            wait_until_settled(project, shop)
        if stop.worker is None:
            for run in runs:
                run.interrupt()
            finish(runs, shop, may_lose=may_lose)
        else:
            runs[stop.worker].kill()
            wait_until_gone(shop, runs[stop.worker])
            project.end_leases(runs[stop.worker])
    shop.gate(0)
    start_missing(project, runs, workers)
    for run in runs:
        run.wait_until_open()
    return runs


def wait_until_gone(shop: Shop, run: Run) -> None:
    """Return when the site has noticed that a process has ended, so that it answers nothing into the void."""
    wait_until(
        lambda: shop.waiting(run.agent) == 0,
        what=f"the site has noticed that {run.agent} is gone",
        every=_POLL,
    )


def is_over(run: Run, may_lose: bool) -> bool:
    """Whether it has ended, or, when that may be, will never do so."""
    return not run.running or (may_lose and run.broken)


def finish(runs: Sequence[Run], shop: Shop, *, may_lose: bool = False) -> list[int]:
    """Open the gate and wait for the end; returns the exit statuses. What is broken, and may be so, is killed."""
    shop.gate(None)
    if may_lose:
        for run in runs:
            wait_until(lambda run=run: is_over(run, may_lose), what="the crawl is over", every=_POLL)  # type: ignore[misc]
            if run.running:
                run.kill()
    return [run.wait() for run in runs]


def assert_nothing_was_done_twice(project: Project, shop: Shop, whole: Whole) -> None:
    """Everything was answered once and made one item, but for what a process could not say in time that it had done."""
    answered, items = shop.answered(), project.items()
    assert not whole.answered - answered, "what was not answered"
    assert set(items) == set(whole.items)
    if not project.left_unanswered:
        assert not answered - whole.answered, "what was answered once more"
        assert items == whole.items


def wait_until_settled(project: Project, shop: Shop) -> None:
    """Return when every answer so far is acknowledged, and what was pushed is in the frontier. Only for crawls of which
    no answer had been given twice.
    """

    def all_acknowledged() -> bool:
        answered = shop.answered_for_good()
        return answered >= 0 and project.pushed() == 0 and project.done() >= answered + START_ELEMENTS

    wait_until(all_acknowledged, what="every answer is acknowledged", every=_POLL)
