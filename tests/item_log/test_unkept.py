"""An item that cannot be encoded is there while its process lives, and counted as lost after that."""

from __future__ import annotations

import gc
import weakref
from pathlib import Path

import pytest

from scrapy_durable.item_log import BEGINNING
from tests.item_log.logs import accepted, end, flushed, items, opened
from tests.item_log.loops import in_loop


class Odd:
    """Nothing that a codec knows."""


@in_loop
async def test_it_is_read_as_the_object_that_it_is_by_every_consumer(tmp_path: Path) -> None:
    log = opened(tmp_path)
    odd, loose = Odd(), Odd()
    await flushed(log, 1, "a", odd, "b")
    await accepted(log, 1)
    await flushed(log, 0, loose)
    for _ in range(2):
        assert items(log) == ["a", odd, "b", loose]
    assert (log.unkept, log.lost, log.received, log.durable) == (2, 0, 4, 4)
    log.close()


@in_loop
async def test_after_a_kill_it_is_left_out_and_counted_once(tmp_path: Path) -> None:
    log = opened(tmp_path)
    await accepted(log, 1, "a", Odd(), "b")
    await accepted(log, 2, Odd())
    await flushed(log, 3, Odd())
    log.close()
    log = opened(tmp_path)
    [part] = log.read(BEGINNING, 2)
    assert (part.items, part.position[2]) == (["a"], 2)
    assert log.lost == 1
    for _ in range(2):
        assert items(log) == ["a", "b"]
    assert log.lost == 2
    log.discard([3])
    await log.write()
    assert log.read(end(log), 1) == []
    assert log.lost == 2
    log.close()


@in_loop
async def test_it_is_held_no_longer_than_it_is_needed(tmp_path: Path) -> None:
    log = opened(tmp_path)
    kept, discarded, loose, waiting = Odd(), Odd(), Odd(), Odd()
    seen = [weakref.ref(odd) for odd in (kept, discarded, loose, waiting)]
    await accepted(log, 1, kept)
    await flushed(log, 2, discarded)
    await flushed(log, 0, loose)
    position = end(log)
    await accepted(log, 3, waiting)
    log.discard([2])
    del kept, discarded, loose, waiting
    gc.collect()
    assert [ref() is None for ref in seen] == [False, True, False, False]
    log.let_go(position)
    gc.collect()
    assert [ref() is None for ref in seen] == [True, True, True, False]
    assert items(log) == [seen[3]()]
    assert log.lost == 0
    log.close()


def test_the_first_is_named_in_a_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    log = opened(tmp_path)
    log.append(1, {"a": [Odd()]})
    log.append(1, {"b": Odd()})
    log.close()
    assert [(record.levelname, record.getMessage()) for record in caplog.records] == [
        (
            "WARNING",
            "An item cannot be kept on disk (dict.a[0]: JSON has no Odd): it waits in memory, "
            "and is lost with this process",
        )
    ]


@in_loop
async def test_the_others_keep_the_numbers_that_they_have_in_their_lease(tmp_path: Path) -> None:
    log = opened(tmp_path)
    await accepted(log, 1, Odd(), "a", Odd(), "b", "c")
    [whole] = log.read(BEGINNING, 9)
    assert list(whole.numbers) == [0, 1, 2, 3, 4]
    log.close()
    log = opened(tmp_path)
    parts = [*log.read(BEGINNING, 2), *log.read((0, 0, 2), 9)]
    assert [(part.items, list(part.numbers)) for part in parts] == [(["a"], [1]), (["b", "c"], [3, 4])]
    assert {part.lease for part in parts} == {whole.lease}
    log.close()
