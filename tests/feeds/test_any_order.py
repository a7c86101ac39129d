"""Whatever is accepted, written, stopped and killed in whatever order: each feed has each item once, in order."""

from __future__ import annotations

import json
import shutil
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.feeds.formats import FORMATS
from tests.feeds.runs import Killed, Runs, in_loop, numbered, watch

accept = st.tuples(st.just("accept"), st.integers(1, 5))
consume = st.tuples(st.just("consume"), st.just(0))
stop = st.tuples(st.just("stop"), st.just(0))
kill = st.tuples(st.just("kill"), st.just(0))
kill_in_a_while = st.tuples(st.just("kill in a while"), st.integers(0, 12))
incomplete = st.tuples(st.just("finish, not complete"), st.just(0))
steps = st.lists(
    st.one_of(accept, accept, consume, consume, stop, kill, kill_in_a_while, incomplete), max_size=25
)


def feeds(root: Path, *, overwrite: bool, batch: int) -> dict[Any, dict[str, Any]]:
    wanted = {
        root / f"things.{name}": {**FORMATS[name][0], "overwrite": overwrite}
        for name in ("jsonl", "csv", "json")
    }
    of_batches = {
        f"{root}/%(batch_id)03d-batch.{name}": {**FORMATS[name][0], "batch_item_count": batch}
        for name in ("jsonl", "json")
    }
    return {**wanted, **of_batches}


async def step(runs: Runs, name: str, number: int) -> None:
    if name == "accept":
        await runs.accept(*numbered(len(runs.accepted), number))
    elif name == "consume":
        await runs.consume()
    elif name == "stop":
        await runs.stop()
    elif name == "kill":
        runs.kill()
    elif name == "kill in a while":
        runs.kills.at, runs.kills.moments = number, []
    elif name == "finish, not complete":
        await runs.finish(complete=False)


async def go_through(runs: Runs, chosen: list[tuple[str, int]]) -> None:
    for name, number in chosen:
        try:
            await step(runs, name, number)
        except Killed:
            runs.killed()
    runs.kills.at = None
    assert await runs.finish()


@given(steps, st.booleans(), st.integers(1, 4))
def test_each_item_once(chosen: list[tuple[str, int]], overwrite: bool, batch: int) -> None:
    root = Path(tempfile.mkdtemp()) / "root"
    runs = Runs(root, feeds(root, overwrite=overwrite, batch=batch))
    try:
        with pytest.MonkeyPatch.context() as patch:
            watch(runs.kills, patch)
            in_loop(go_through(runs, chosen))
        runs.kill()
        expected = list(range(len(runs.accepted)))
        for name in ("jsonl", "json"):
            assert FORMATS[name][1]((root / f"things.{name}").read_bytes()) == expected
            batches = [FORMATS[name][1](path.read_bytes()) for path in sorted(root.glob(f"*-batch.{name}"))]
            assert [item for found in batches for item in found] == expected
            assert {len(found) for found in batches[:-1]} <= {batch}
        if expected:
            assert FORMATS["csv"][1]((root / "things.csv").read_bytes()) == expected
        assert not list(root.glob("*.incomplete.*"))
        noted = json.loads((runs.state_dir / "feeds.json").read_bytes())
        assert all(note["stored"] for note in noted["feeds"].values())
    finally:
        for run in Runs.begun:
            run.put_away()
        Runs.begun.clear()
        shutil.rmtree(root.parent)
