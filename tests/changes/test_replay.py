"""Replaying `changes.jsonl` over one catalogue gives the next exactly, whatever is killed or erased between."""

from __future__ import annotations

import contextlib
import copy
import tempfile
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from carscraper.changes.comparison import digest_of
from carscraper.changes.lines import replay
from carscraper.changes.log import CHANGES_JSONL, PENDING, Changes
from carscraper.erasure.files import erase_records
from scrapy_durable.disk import write_atomically

Catalogue = dict[str, dict[str, Any]]

values = st.one_of(
    st.none(), st.booleans(), st.integers(0, 2), st.just(1.0), st.text("ab.\n", max_size=2), st.just([1])
)
records = st.fixed_dictionaries(
    {
        "url": st.sampled_from(["", "https://a/1"]),
        "car_attrs": st.dictionaries(st.sampled_from(["price", "make", "a.b", "agent"]), values, max_size=3),
        "car_specs": st.sampled_from([[], None, [{"title": "Engine", "attrs": []}]]),
    }
)
catalogues = st.dictionaries(st.sampled_from(list("123456")), records, max_size=6)
KILLS = ["never", "before", "prepared", "published", "appended"]
"""Between which steps of publishing the process dies."""
steps = st.lists(
    st.one_of(
        st.tuples(st.just("publish"), catalogues, st.sampled_from(KILLS), st.booleans(), st.integers(0, 400)),
        st.tuples(st.just("erase"), st.sampled_from(list("123456")), st.booleans()),
        st.tuples(st.just("read")),
    ),
    min_size=2,
    max_size=9,
)


class Killed(BaseException):
    """The process is not there any more."""


def lines_of(catalogue: Catalogue, number: int) -> list[tuple[str, bytes]]:
    """The records as the crawl of that number has read them."""
    time = f"2026-11-20T10:15:00.{number:03d}Z"
    return [
        (listing, orjson.dumps({"id": listing, "url": one["url"], "scraped_at": time} | one))
        for listing, one in sorted(catalogue.items(), key=lambda item: (int(item[0]) * 7 + number) % 5)
    ]


def array(lines: Iterable[tuple[str, bytes]]) -> bytes:
    return b"[\n" + b",\n".join(line for _, line in lines) + b"\n]\n" if lines else b"[]\n"


def publish(
    out: Path,
    number: int,
    catalogue: Catalogue,
    kill: str = "never",
    torn: int = 0,
    left_out: tuple[str, ...] = (),
) -> None:
    """Publish the catalogue as the crawl of that number, which may be killed meanwhile."""
    lines = lines_of(catalogue, number)
    run, time = f"run-{number}", f"2026-11-{number + 1:02d}T10:15:00Z"
    if kill == "before":
        return
    with contextlib.suppress(Killed), Changes(out).following(run, time, time, lines, left_out):
        die_if(kill == "prepared")
        write_atomically(out / "cars.json", [array(lines)])
        if kill in ("published", "appended"):
            pending = (out / PENDING).read_bytes().partition(b"\n")[2]
            with (out / CHANGES_JSONL).open("ab") as file:
                file.write(pending[:torn] if kill == "published" else pending)
            raise Killed


def die_if(dies: bool) -> None:
    if dies:
        raise Killed


def erase(out: Path, listing: str, *, killed: bool) -> None:
    """As `scrapy erase` does it; killed after its first step."""
    Changes(out).erase({listing}, "2026-12-01T00:00:00Z")
    if not killed and (out / "cars.json").exists():
        erase_records(out / "cars.json", {listing}, lambda: None)


def read(out: Path) -> list[dict[str, Any]]:
    path = out / CHANGES_JSONL
    text = path.read_bytes() if path.exists() else b""
    return [orjson.loads(line) for line in text.splitlines(keepends=True) if line.endswith(b"\n")]


def content(catalogue: Catalogue) -> dict[str, bytes]:
    """What a catalogue says, but for when it was read; the order of members counts for nothing."""
    found = {}
    for listing, record in catalogue.items():
        rest = {name: value for name, value in record.items() if name not in ("id", "scraped_at")}
        found[listing] = orjson.dumps(rest, option=orjson.OPT_SORT_KEYS)
    return found


def there(out: Path) -> Catalogue:
    return {record["id"]: record for record in orjson.loads((out / "cars.json").read_bytes())}


class Follower:
    """Who has a copy of the first catalogue, and from then on reads lines only, each once, known by its id."""

    def __init__(self) -> None:
        self.catalogue: Catalogue | None = None
        self._seen: set[str] = set()

    def read(self, out: Path) -> None:
        lines = read(out)
        if self.catalogue is None and (out / "cars.json").exists():
            self.catalogue = there(out)
            last = max(at for at, line in enumerate(lines) if line["kind"] == "run")
            replay(self.catalogue, lines[last:])  # what is erased of it at this moment
        elif self.catalogue is not None:
            replay(self.catalogue, [line for line in lines if line["id"] not in self._seen])
        self._seen.update(line["id"] for line in lines)


@settings(max_examples=300)
@given(steps)
def test_lines_lead_from_each_catalogue_to_the_next(steps: list[tuple[Any, ...]]) -> None:
    with tempfile.TemporaryDirectory() as place:
        out = Path(place)
        follower = Follower()
        known: dict[str, Catalogue] = {}
        erased: set[str] = set()  # they may still be in `cars.json`
        for number, step in enumerate(steps):
            if step[0] == "publish":
                _, catalogue, kill, again, torn = step
                publish(out, number, catalogue, kill, torn)
                if again:
                    publish(out, number, catalogue)
                if again or kill not in ("before", "prepared"):
                    erased.clear()
            elif step[0] == "erase":
                erase(out, step[1], killed=step[2])
                for catalogue in known.values():
                    catalogue.pop(step[1], None)
                erased.add(step[1])
                continue_with(out, known, without=erased)
            else:
                Changes(out).recover()
                follower.read(out)
            continue_with(out, known)
        publish(out, 20, {"1": {"url": "", "car_attrs": {}, "car_specs": []}})
        continue_with(out, known)

        if follower.catalogue is not None:
            follower.read(out)
            assert content(follower.catalogue) == content(there(out))
        follow_runs(out, known)


def continue_with(out: Path, known: dict[str, Catalogue], without: Collection[str] = ()) -> None:
    """Note which catalogue is there now, by its digest."""
    digest = digest_of(out / "cars.json", without)
    if digest is not None:
        found = {listing: record for listing, record in there(out).items() if listing not in without}
        known.setdefault(digest, found)


def follow_runs(out: Path, known: dict[str, Catalogue]) -> None:
    """The lines of each run lead from the catalogue that it names to the one that it names, and the last is there."""
    state: Catalogue | None = None
    assert None not in [line["previous"] for line in read(out) if line["kind"] == "run"][1:], "no gap"
    for line in read(out):
        if line["kind"] != "run":
            if state is not None:
                replay(state, [line, line])  # seen twice, as after a kill
            continue
        if state is None:
            state = copy.deepcopy(known[line["after"]])
        assert content(state) == content(known.get(line["after"], state)), line
        assert line["listings"] >= len(state)
    assert state is not None
    assert content(state) == content(there(out))


@pytest.mark.parametrize("kill", KILLS)
def test_a_run_is_there_once_whatever_step_it_was_killed_at(kill: str, tmp_path: Path) -> None:
    """Once each line, also when it was torn."""
    first = {"1": {"url": "", "car_attrs": {"price": 1}, "car_specs": []}}
    second = {"1": {"url": "", "car_attrs": {"price": 2}, "car_specs": []}, "2": first["1"]}
    publish(tmp_path, 1, first)
    publish(tmp_path, 2, second, kill, torn=50)
    publish(tmp_path, 2, second)
    kinds = [line["kind"] for line in read(tmp_path)]
    assert kinds in (["run", "price", "added", "run"], ["run", "added", "price", "run"])


def test_the_property_can_fail(tmp_path: Path) -> None:
    """The counterpart: a catalogue that was put in place beside the lines is noticed."""
    first = {"1": {"url": "", "car_attrs": {"price": 1}, "car_specs": []}}
    known: dict[str, Catalogue] = {}
    publish(tmp_path, 1, first)
    continue_with(tmp_path, known)
    write_atomically(tmp_path / "cars.json", [array(lines_of({"2": first["1"]}, 2))])
    with pytest.raises(AssertionError):
        follow_runs(tmp_path, known)


def test_an_attribute_that_shall_not_be_kept_any_more_leaves_no_value_behind(tmp_path: Path) -> None:
    record = {"url": "", "car_attrs": {"price": 1, "agent_name": "Jo"}, "car_specs": []}
    publish(tmp_path, 1, {"1": record})
    publish(tmp_path, 2, {"1": record | {"car_attrs": {"price": 1}}}, left_out=("agent_*",))
    (changed,) = (line for line in read(tmp_path) if line["kind"] == "changed")
    assert changed["fields"] == {"car_attrs.agent_name": {}}
    state = {"1": orjson.loads(lines_of({"1": record}, 1)[0][1])}
    replay(state, [changed])
    assert content(state) == content(there(tmp_path))


def test_a_foreign_cars_json_breaks_the_chain_in_a_way_that_a_reader_sees(tmp_path: Path) -> None:
    first = {"1": {"url": "", "car_attrs": {"price": 1}, "car_specs": []}}
    publish(tmp_path, 1, first)
    write_atomically(tmp_path / "cars.json", [array(lines_of({"2": first["1"]}, 2))])
    publish(tmp_path, 3, first)
    assert [line["previous"] for line in read(tmp_path) if line["kind"] == "run"] == [None, None]


def test_a_listing_that_is_gone_leaves_no_price_that_is_not_to_be_kept(tmp_path: Path) -> None:
    record = {"url": "", "car_attrs": {"price": 1, "make": "Toyota"}, "car_specs": []}
    publish(tmp_path, 1, {"1": record})
    publish(tmp_path, 2, {}, left_out=("pri*",))
    (removed,) = (line for line in read(tmp_path) if line["kind"] == "removed")
    assert removed["car"] == {"make": "Toyota"}


def test_what_was_removed_and_comes_again_has_returned(tmp_path: Path) -> None:
    first = {"1": {"url": "", "car_attrs": {"price": 1}, "car_specs": []}}
    for number, catalogue in enumerate([first, {}, first, {}, first | {"2": first["1"]}]):
        publish(tmp_path, number, catalogue)
    kinds = [(line["kind"], line["listing"]) for line in read(tmp_path) if line["kind"] != "run"]
    assert kinds[:3] == [("removed", "1"), ("returned", "1"), ("removed", "1")]
    assert sorted(kinds[3:]) == [("added", "2"), ("returned", "1")]


def test_older_lines_are_cut_and_the_next_run_follows_all_the_same(tmp_path: Path) -> None:
    first = {"1": {"url": "", "car_attrs": {"price": 1}, "car_specs": []}}
    for number, catalogue in enumerate([first, {}, first]):
        publish(tmp_path, number, catalogue)
    assert Changes(tmp_path).drop_before("2026-12-01T00:00:00Z") == 4
    publish(tmp_path, 5, {})
    assert [line["kind"] for line in read(tmp_path)] == ["run", "removed", "run"]
    assert read(tmp_path)[-1]["previous"] == "run-2"
