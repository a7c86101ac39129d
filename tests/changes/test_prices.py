"""Prices over time, by the real `scrapy export --prices`, are those that a replay of the same changes shows."""

from __future__ import annotations

import csv
import io
import json
import tempfile
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from hypothesis import given, settings
from hypothesis import strategies as st

from carscraper.changes.lines import replay
from carscraper.changes.log import Changes
from carscraper.changes.prices import Price, price_history
from carscraper.export.tables import PRICES
from tests.changes.test_command import move, whole_crawl
from tests.changes.test_replay import Catalogue, erase, publish, read, there
from tests.databases.test_erase import scrapy
from tests.exports.command_line import TELLS_ITS_PEAK, export, python_that
from tests.standin import StandIn

NAMES = [column.name for column in PRICES]
MOST_MIB = 30
"""By how much the peak of a larger export may be above that of a smaller one."""
Asked = dict[str, int | None]
"""Prices by listing, at one moment."""


def history(out: Path) -> list[Price]:
    return list(price_history(out / "changes.jsonl", out / "cars.json"))


def at(prices: list[Price], time: datetime) -> Asked:
    """What the table says was asked for at that moment."""
    found = [
        row
        for row in prices
        if (row.since is None or row.since <= time) and (row.until is None or time < row.until)
    ]
    asked = {row.listing: row.price_zar for row in found}
    assert len(asked) == len(found), "one price at a time"
    return asked


def asked(catalogue: Catalogue) -> Asked:
    return {listing: record["car_attrs"].get("price") for listing, record in catalogue.items()}


def replayed(catalogue: Catalogue, lines: list[dict[str, Any]]) -> Iterator[tuple[datetime, Asked]]:
    """At each run, what a replay over the first catalogue has."""
    for line in lines:
        replay(catalogue, [line])
        if line["kind"] == "run":
            yield datetime.fromisoformat(line["at"]), asked(catalogue)


def test_parquet_holds_each_price_of_each_listing_as_a_replay_has_it(
    stand_in: Callable[..., StandIn], tmp_path: Path
) -> None:
    site, out = stand_in(40), tmp_path / "out"
    whole_crawl(site, out)
    first = there(out)
    done = [move(site)]
    whole_crawl(site, out)
    site.churn(price={done[0]["cheaper"]: 900}, remove=[site.ids()[9]])
    whole_crawl(site, out)
    scrapy("erase", (erased := site.ids()[12]), output_dir=out, status=0, env={})

    said = export(out, "--prices", str(tmp_path / "prices.parquet"))

    assert (said.status, said.err) == (0, "")
    table = pq.read_table(tmp_path / "prices.parquet")
    assert table.column_names == NAMES
    assert said.out.decode() == f"{table.num_rows} prices in {tmp_path / 'prices.parquet'}\n"
    rows = [Price(*row.values()) for row in table.to_pylist()]
    assert erased not in {row.listing for row in rows}
    first.pop(erased)
    states = list(replayed(first, read(out)))
    assert len(states) == 3
    for time, expected in dict(states).items():
        assert at(rows, time) == expected
    assert at(rows, datetime.now(UTC)) == asked(there(out)), "now"

    of_one = [row for row in rows if row.listing == done[0]["cheaper"]]
    times = [time for time, _ in states]
    assert [(row.kind, row.since, row.until) for row in of_one] == [
        ("first", times[0], times[1]),
        ("price", times[1], times[2]),
        ("price", times[2], None),
    ]
    assert [row.price_zar for row in of_one[1:]] == [1000, 900]
    assert of_one[0].make == there(out)[of_one[0].listing]["car_attrs"]["make"]
    gone = {row.listing: row.removed_at for row in rows if row.removed_at}
    assert gone.keys() >= set(done[0]["removed"])
    assert {gone[listing] for listing in done[0]["removed"]} == {times[1]}
    assert all(row.until == row.removed_at for row in rows if row.removed_at)
    assert {row.run for row in rows} == {line["run"] for line in read(out) if line["kind"] == "run"}

    (header, *lines) = csv.reader(io.StringIO(export(out, "--prices", "-").out.decode()))
    assert (header, len(lines)) == (NAMES, table.num_rows)
    first_line = json.loads(export(out, "--prices", "-:jsonl").out.splitlines()[0])
    assert list(first_line) == NAMES


prices = st.sampled_from([None, 1, 2, 3])
catalogues = st.dictionaries(st.sampled_from(list("12345")), prices, max_size=5)
KILLS = ["never", "never", "prepared", "published", "appended"]


def made_of(asked: Asked) -> Catalogue:
    return {
        listing: {"url": "", "car_attrs": {"price": price, "make": "Audi"}, "car_specs": []}
        for listing, price in asked.items()
    }


@settings(max_examples=150)
@given(
    st.lists(st.tuples(catalogues, st.sampled_from(KILLS), st.integers(0, 300)), min_size=1, max_size=6),
    st.sampled_from([None, *"12345"]),
    st.booleans(),
)
def test_whatever_was_killed_or_erased_prices_are_those_of_each_catalogue(
    days: list[tuple[Asked, str, int]], erased: str | None, killed: bool
) -> None:
    with tempfile.TemporaryDirectory() as place:
        out = Path(place)
        expected: dict[datetime, Asked] = {}
        for number, (catalogue, kill, torn) in enumerate(days):
            publish(out, number, made_of(catalogue), kill, torn)
            if (out / "cars.json").exists() and kill != "prepared":
                expected[datetime(2026, 11, number + 1, 10, 15, tzinfo=UTC)] = catalogue
        if not expected:
            return
        Changes(out).recover()
        if erased:
            erase(out, erased, killed=killed)
        rows = history(out)
        for time, catalogue in expected.items():
            assert at(rows, time) == {key: price for key, price in catalogue.items() if key != erased}
        assert all(left.until is None or left.since is None or left.since < left.until for left in rows)


def test_a_line_that_comes_twice_changes_nothing(tmp_path: Path) -> None:
    for number, catalogue in enumerate([{"1": 1, "2": 1}, {"1": 2, "3": 1}, {"1": 2, "2": 1, "3": 2}]):
        publish(tmp_path, number, made_of(catalogue))
    once, path = history(tmp_path), tmp_path / "changes.jsonl"
    path.write_bytes(b"".join(line * 2 for line in path.read_bytes().splitlines(keepends=True)))
    assert history(tmp_path) == once


def test_nothing_is_claimed_of_the_time_between_catalogues_that_do_not_follow(tmp_path: Path) -> None:
    publish(tmp_path, 1, made_of({"1": 1, "2": 1}))
    publish(tmp_path, 2, made_of({"1": 1, "2": 2}))
    (tmp_path / "cars.json").unlink()
    publish(tmp_path, 3, made_of({"1": 3}))
    publish(tmp_path, 4, made_of({"1": 4}))
    second, third, fourth, fifth = (datetime(2026, 11, day, 10, 15, tzinfo=UTC) for day in (2, 3, 4, 5))
    assert [
        (row.listing, row.price_zar, row.since, row.until, row.removed_at) for row in history(tmp_path)
    ] == [
        ("1", 3, fourth, fifth, None),
        ("1", 4, fifth, None, None),
        ("2", 1, second, third, None),
        ("2", 2, third, fourth, None),
    ]


def test_what_is_older_than_the_lines_has_no_beginning(tmp_path: Path) -> None:
    for number, price in enumerate([1, 2, 3]):
        publish(tmp_path, number, made_of({"1": price, "2": 7}))
    Changes(tmp_path).drop_before("2026-11-03T00:00:00Z")
    time = datetime(2026, 11, 3, 10, 15, tzinfo=UTC)
    assert [(row.listing, row.price_zar, row.kind, row.since) for row in history(tmp_path)] == [
        ("1", 2, "first", None),
        ("1", 3, "price", time),
        ("2", 7, "first", time),
    ]


def test_texts_of_the_site_are_harmless_in_a_spreadsheet(tmp_path: Path) -> None:
    record = {"url": "", "car_attrs": {"price": 1, "make": "=1+2", "model": "a\x1b[2J"}, "car_specs": []}
    publish(tmp_path, 1, {"1": record})
    lines = list(csv.reader(io.StringIO(export(tmp_path, "--prices", "-").out.decode())))
    assert lines[1][1:3] == ["'=1+2", "a\x1b[2J"]


def test_what_cannot_be_read_is_one_clear_line_and_the_old_file_stays(tmp_path: Path) -> None:
    out, file = tmp_path / "out", tmp_path / "prices.parquet"
    file.write_text("of yesterday")

    def refused(status: int, *options: str) -> str:
        done = export(out, "--prices", *options, str(file))
        assert done.status == status, done.err
        assert "Traceback" not in done.err
        assert file.read_text() == "of yesterday"
        return done.err + done.out.decode()

    assert "changes.jsonl: there is no such file; a complete crawl" in refused(2)
    publish(out, 1, made_of({"1": 1}))
    publish(out, 2, made_of({"1": 2}))
    assert "leave --raw and --from out" in refused(2, "--raw")
    whole = (out / "changes.jsonl").read_bytes()
    (out / "changes.jsonl").write_bytes(whole.replace(b'"fields":', b'"fields"!'))
    assert refused(2) == f"error: {out / 'changes.jsonl'}: line 2: damaged\n"
    (out / "changes.jsonl").write_bytes(whole + b'{"id":"being written')
    (out / "cars.json").write_bytes(b'[\n{"id":"1","url":"","car_attrs":{}}\n]\n')
    assert "cars.json is not the catalogue that" in refused(1)
    (out / "cars.json").unlink()
    assert refused(1).count("\n") == 1


def test_eight_times_the_prices_do_not_take_more_memory(tmp_path: Path) -> None:
    peaks = []
    env = python_that(TELLS_ITS_PEAK, tmp_path / "python")
    for listings in (4_000, 32_000):
        out = tmp_path / str(listings)
        for number in (1, 2):
            publish(out, number, made_of({str(one): number for one in range(listings)}))
        done = export(out, "--prices", str(out / "x.parquet"), env={**env, "PEAK_FILE": str(out / "peak")})
        assert done.out.startswith(f"{2 * listings:,} prices".encode()), done.err
        peaks.append(int((out / "peak").read_text()) / 1024)
    assert peaks[1] - peaks[0] < MOST_MIB
