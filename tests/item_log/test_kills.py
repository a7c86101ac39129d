"""A worker is killed while it writes, again and again: what the frontier has accepted is in its log, once."""

from __future__ import annotations

import asyncio
import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.item_log.logs import items, opened, segments
from tests.standin import ROOT

KILLS = 5


class Frontier:
    """What the frontier knows of one worker: which leases it has accepted, and of which the log has said so."""

    def __init__(self) -> None:
        self.accepted: dict[int, int] = {}
        """How many items each lease has."""
        self.remembered: set[int] = set()
        self.next_token = 1

    def hear(self, line: str) -> None:
        """A line of the worker, as a transaction."""
        word, token, *count = line.split()
        if word == "leased":
            self.next_token = max(self.next_token, int(token) + 1)
        elif word == "logged":
            self.accepted[int(token)] = int(count[0])
            self.remembered.add(int(token))
        else:
            self.remembered.discard(int(token))


def run_and_kill(directory: Path, frontier: Frontier, lines: int) -> None:
    """Let the worker say so many lines. What it says after that is heard too, but for a line that is cut off: the
    frontier may have accepted what the worker has never been told.
    """
    command = [sys.executable, "-m", "tests.item_log.worker", directory, frontier.next_token]
    worker = subprocess.Popen(
        [*map(str, command), *map(str, sorted(frontier.remembered))],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert worker.stdout is not None
    with worker, worker.stdout:
        for _ in range(lines):
            line = worker.stdout.readline()
            assert line.endswith("\n")
            frontier.hear(line)
        worker.send_signal(signal.SIGKILL)
        for line in worker.stdout:
            if line.endswith("\n"):
                frontier.hear(line)
    assert worker.returncode == -signal.SIGKILL


@pytest.mark.parametrize("seed", range(3))
def test_what_the_frontier_has_accepted_is_there_once(tmp_path: Path, seed: int) -> None:
    dice = random.Random(seed)
    frontier = Frontier()
    for _ in range(KILLS):
        run_and_kill(tmp_path, frontier, dice.randint(1, 150))
    log = opened(tmp_path)
    log.accept(frontier.remembered)
    asyncio.run(log.write())
    found: dict[int, list[int]] = {}
    for token, number, _ in items(log):
        found.setdefault(token, []).append(number)
    assert found == {token: list(range(count)) for token, count in frontier.accepted.items()}
    assert len(frontier.accepted) > KILLS
    assert len(segments(tmp_path)) > 1
    log.close()
