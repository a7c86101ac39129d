"""The coverage of the typed columns is counted from the raw records, and finds what a column misses."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import coverage
from carscraper.api.columns import COLUMNS
from tests.exports.conftest import LISTINGS, Crawled
from tests.exports.samples import SPECS, car, write_cars_json

UNREADABLE = [
    {
        "title": "Engine",
        "attrs": [
            {"label": "Power Max", "value": "150 hp"},
            {"label": "POWER MAXIMUM TOTAL", "value": "n/a"},
            {"label": "Warranty", "value": "5 years"},
        ],
    }
]


def test_every_value_that_the_stand_in_tells_is_read(crawled: Crawled) -> None:
    found = coverage.measure(crawled.cars())
    assert found.cars == LISTINGS
    for name, column in found.columns.items():
        assert column.read == column.told > 0, name
        assert not column.unread


def test_what_is_told_and_not_read_is_counted_with_examples() -> None:
    cars = [car(1), car(2, UNREADABLE), car(3, UNREADABLE), car(4, [], mileage="a | few", price=None)]
    found = coverage.measure(cars)
    power, mileage, price = (found.columns[name] for name in ("power_kw", "mileage_km", "price_zar"))
    assert (power.told, power.read, dict(power.unread)) == (3, 1, {"'150 hp'": 2})
    assert (mileage.told, mileage.read) == (4, 3)
    assert (price.told, price.read) == (3, 3)
    assert found.unused == {"warranty": 2}
    lines = list(coverage.table(found))
    assert "| `power_kw` | 3 | 1 | 33.33 % | `'150 hp'` (2) |" in lines
    assert "| `mileage_km` | 4 | 3 | 75.00 % | `'a \\| few'` (1) |" in lines
    assert [line.split("`")[1] for line in lines if line.startswith("| `")] == list(COLUMNS)


def test_a_hundred_percent_are_all() -> None:
    found = coverage.Coverage()
    found.columns["power_kw"] = coverage.Column(told=100_000, read=99_999)
    (line,) = [line for line in coverage.table(found) if "`power_kw`" in line]
    assert "| 99.99 % |" in line


def test_the_table_is_put_between_its_marks(tmp_path: Path) -> None:
    write_cars_json(tmp_path / "cars.json", [car(1, SPECS)])
    page = tmp_path / "page.md"
    page.write_text(f"before\n{coverage.BEGIN}\nold\n{coverage.END}\nafter\n")
    for _ in range(2):
        assert coverage.main([str(tmp_path / "cars.json"), "--into", str(page)]) == 0
    text = page.read_text()
    assert text.startswith(f"before\n{coverage.BEGIN}\n\nOf 1 cars:\n")
    assert text.endswith(f"\n\n{coverage.END}\nafter\n")
    assert "old" not in text
    assert text.count("| `power_kw` | 1 | 1 | 100.00 % |") == 1


def test_a_page_without_marks_and_a_file_that_is_missing_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_cars_json(tmp_path / "cars.json", [car(1)])
    (tmp_path / "page.md").write_text("nothing")
    for arguments, problem in (
        ([str(tmp_path / "cars.json"), "--into", str(tmp_path / "page.md")], "the marks"),
        ([str(tmp_path / "no.json")], "there is no such file"),
    ):
        with pytest.raises(SystemExit) as ended:
            coverage.main(arguments)
        assert ended.value.code == 2
        assert problem in capsys.readouterr().err
    assert (tmp_path / "page.md").read_text() == "nothing"
