"""Nothing that is wrong with the changes keeps a catalogue from being published, and readers see the gap."""

from __future__ import annotations

import fcntl
import json
import logging
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from carscraper.changes.log import CHANGES_JSONL, PENDING, Changes
from scrapy_durable.disk import write_atomically
from tests.changes.test_command import changes, whole_crawl
from tests.changes.test_replay import array, erase, lines_of, publish, read, there
from tests.standin import StandIn

RECORD: dict[str, Any] = {"url": "", "car_attrs": {"price": 1}, "car_specs": []}
FIRST = {"1": RECORD, "2": RECORD}
SECOND = {"1": RECORD | {"car_attrs": {"price": 2}}}


def lines(out: Path) -> list[bytes]:
    return (out / CHANGES_JSONL).read_bytes().splitlines()


def previous(out: Path) -> list[str | None]:
    """Of each run."""
    found = (re.search(rb'"kind":"run".*"previous":(null|".*?")', line) for line in lines(out))
    return [json.loads(one[1]) for one in found if one]


def damage_record(out: Path) -> None:
    path = out / "cars.json"
    path.write_bytes(path.read_bytes().replace(b'"car_attrs":', b'"car_attrs"!'))


def foreign_record(out: Path) -> None:
    (out / "cars.json").write_bytes(b'[\n{"id":"1","name":"x"},\n{"id":"2","car_attrs":[]}\n]\n')


def damage_run(out: Path) -> None:
    path = out / CHANGES_JSONL
    path.write_bytes(path.read_bytes().replace(b'"after":"', b'"after":!'))


def foreign_run(out: Path) -> None:
    path = out / CHANGES_JSONL
    path.write_bytes(path.read_bytes().replace(b'"after":"', b'"behind":"'))


def replace_by_directory(name: str) -> Callable[[Path], None]:
    def replace(out: Path) -> None:
        (out / name).unlink(missing_ok=True)
        (out / name).mkdir()

    return replace


FAULTS: dict[str, tuple[Callable[[Path], None], str]] = {
    "a damaged record": (damage_record, "What has changed is not written to"),
    "a foreign record": (foreign_record, "What has changed is not written to"),
    "a damaged run": (damage_run, "is damaged: the next follows none"),
    "a foreign run": (foreign_run, "is damaged: the next follows none"),
    "no file for what is pending": (replace_by_directory(PENDING), "What has changed is not written to"),
    "no file": (replace_by_directory(CHANGES_JSONL), "What has changed is not written to"),
    "no file for the lock": (replace_by_directory(".changes.lock"), "What has changed is not written to"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_one_warning_and_the_next_run_shows_the_gap(
    fault: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    publish(tmp_path, 1, FIRST)
    make, said = FAULTS[fault]
    make(tmp_path)
    publish(tmp_path, 2, SECOND)
    (warning,) = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    assert said in warning
    assert str(tmp_path) in warning
    assert there(tmp_path).keys() == SECOND.keys()
    for name in (PENDING, CHANGES_JSONL, ".changes.lock"):
        if (tmp_path / name).is_dir():
            (tmp_path / name).rmdir()
    publish(tmp_path, 3, FIRST)
    assert None in (previous(tmp_path)[1:] or previous(tmp_path))


@pytest.mark.parametrize("text", [b"", b"{\n", b"\0" * 9, b'{"offset":"0"}\n{}\n', b'{"offset":0}\n{"id":'])
def test_damage_to_what_is_pending_is_dropped_and_said(
    text: bytes, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    publish(tmp_path, 1, FIRST)
    (tmp_path / PENDING).write_bytes(text)
    assert Changes(tmp_path).recover()
    assert f"{PENDING} is damaged, and dropped" in caplog.text
    publish(tmp_path, 2, SECOND)
    assert previous(tmp_path) == [None, "run-1"]


def test_a_lock_that_is_held_for_long_is_not_waited_for(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    publish(tmp_path, 1, FIRST)
    second = lines_of(SECOND, 2)
    with (tmp_path / ".changes.lock").open("ab") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with Changes(tmp_path, wait=0.3).following("run-2", "", "", second, ()):
            write_atomically(tmp_path / "cars.json", [array(second)])
    assert "a process works on" in caplog.text
    publish(tmp_path, 3, FIRST)
    assert previous(tmp_path) == [None, None]


def test_what_cannot_be_appended_is_left_to_the_next(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    publish(tmp_path, 1, FIRST)
    path, aside = tmp_path / CHANGES_JSONL, tmp_path / "aside"
    second = lines_of(SECOND, 2)
    with Changes(tmp_path).following("run-2", "", "", second, ()):
        write_atomically(tmp_path / "cars.json", [array(second)])
        path.rename(aside)
        path.mkdir()
    assert "waits to be appended" in caplog.text
    path.rmdir()
    aside.rename(path)
    publish(tmp_path, 3, FIRST)
    assert previous(tmp_path) == [None, "run-1", "run-2"]


def test_an_error_of_the_publication_itself_is_not_hidden(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="disk"), Changes(tmp_path).following("run-1", "", "", [], ()):
        raise OSError("disk")


@pytest.mark.parametrize("end", [b"\n", b""])
def test_what_is_damaged_and_quotes_an_erased_listing_goes(end: bytes, tmp_path: Path) -> None:
    publish(tmp_path, 1, FIRST)
    publish(tmp_path, 2, FIRST | {"3": RECORD})
    path = tmp_path / CHANGES_JSONL
    whole = path.read_bytes()
    path.write_bytes(whole + b'{"kind":"price","listing":"9","secret":1}' + end)
    assert Changes(tmp_path).erase({"9"}, "2026-12-01T00:00:00Z") == ["9"]
    assert b"secret" not in path.read_bytes()
    path.write_bytes(whole.replace(b'"car_attrs":', b'"car_attrs"!'))
    assert Changes(tmp_path).erase({"3"}, "2026-12-01T00:00:00Z") == ["3"]
    assert [line["kind"] for line in read(tmp_path)] == ["run", "run", "erased"]


def test_erasing_again_after_a_kill_makes_no_gap(tmp_path: Path) -> None:
    publish(tmp_path, 1, FIRST)
    erase(tmp_path, "1", killed=True)
    erase(tmp_path, "2", killed=False)
    publish(tmp_path, 2, FIRST)
    assert previous(tmp_path) == [None, "run-1"]


def test_a_crawl_ends_as_if_there_were_no_changes(stand_in: Callable[..., StandIn], tmp_path: Path) -> None:
    (tmp_path / CHANGES_JSONL).mkdir()
    log = whole_crawl(stand_in(10), tmp_path)
    assert log.count("What has changed is not written to") == 1
    assert "Traceback" not in log
    assert json.loads((tmp_path / "run.json").read_bytes())["complete"] is True
    assert len(there(tmp_path)) == 10


def test_changes_are_shown_whatever_became_of_the_lock_and_what_is_pending(tmp_path: Path) -> None:
    publish(tmp_path, 1, FIRST)
    publish(tmp_path, 2, SECOND)
    (tmp_path / PENDING).write_bytes(b"")
    assert changes(tmp_path)[-1] == "1 removed, 1 price"
    replace_by_directory(".changes.lock")(tmp_path)
    assert "1 removed, 1 price" in changes(tmp_path)
