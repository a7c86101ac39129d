"""A column more is a line in `api/columns.py` and a numbered step: tried on a copy of the package, on a real server."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from carscraper.stores.postgres.statements import LAYOUT
from tests.postgres_server import PostgresServer
from tests.standin import ROOT
from tests.stores.conftest import PostgresPlace
from tests.stores.test_contract import SPECS

LINE = '    Column("tried_out", str, "As the seller words it.", labels=("Tried out",)),\n'
STEP = f"""-- A column more.

ALTER TABLE cars ADD COLUMN tried_out text;
COMMENT ON COLUMN cars.tried_out IS 'As the seller words it';
INSERT INTO cars_schema (version) VALUES ({LAYOUT + 1});
"""
PROGRAM = """
import asyncio, json, sys
from carscraper.items import Car
from carscraper.stores.postgres.database import PostgresDatabase
from carscraper.stores.record import Draft, Records

async def write(dsn, at, groups):
    database = PostgresDatabase.from_address(dsn)
    await database.open()
    car = Car("1", "https://h/1/", at, {"title": "A car", "price": 5}, groups)
    refused = await database.upsert([Draft(car, Records()).record])
    await database.close()
    assert not refused, refused

asyncio.run(write(sys.argv[1], sys.argv[2], json.loads(sys.argv[3])))
"""
WITH_ONE_MORE = [*SPECS, {"title": "Other", "attrs": [{"label": "Tried out", "value": "5 years"}]}]


@pytest.fixture
def place(postgres: PostgresServer) -> PostgresPlace:
    return PostgresPlace(postgres)


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A directory with the package in it, and the line."""
    package = shutil.copytree(ROOT / "carscraper", tmp_path / "copy" / "carscraper")
    columns = package / "api" / "columns.py"
    before, end, behind = columns.read_text().partition(")  # fmt: skip\n")
    assert end
    columns.write_text(f"{before}{LINE}{end}{behind}")
    return package.parent


def write(place: PostgresPlace, minute: int, *packages: Path) -> subprocess.CompletedProcess[str]:
    """Have one listing written, by the packages that are found first there."""
    path = ":".join(map(str, [*packages, ROOT]))
    arguments = [
        place.server.dsn(place.name),
        f"2026-11-21T10:{minute:02}:00.000Z",
        json.dumps(WITH_ONE_MORE),
    ]
    return subprocess.run(
        [sys.executable, "-c", PROGRAM, *arguments],
        env={"PYTHONPATH": path},
        cwd=ROOT.parent,
        capture_output=True,
        text=True,
    )


def test_what_is_stored_gets_its_value_when_it_is_read_again(place: PostgresPlace, copy: Path) -> None:
    assert write(place, 0).returncode == 0
    (copy / "carscraper/stores/postgres/sql/schema" / f"{LAYOUT + 1:04}.sql").write_text(STEP)
    done = write(place, 1, copy)
    assert done.returncode == 0, done.stderr
    row = place.row("1")
    assert row is not None
    assert (row["title"], row["tried_out"]) == ("A car", "5 years")
    assert row["first_seen"] < row["last_seen"]
    assert [price for _, price in place.prices("1")] == [5]
    versions = place.select("SELECT version FROM cars_schema ORDER BY version")
    assert [row["version"] for row in versions] == list(range(1, LAYOUT + 2))
    assert f"its layout is version {LAYOUT + 1}, and this release knows {LAYOUT}" in write(place, 2).stderr


def test_a_column_without_a_step_is_refused(place: PostgresPlace, copy: Path) -> None:
    """The counterpart: it is the step that makes it."""
    assert write(place, 0).returncode == 0
    assert "StoreRefused: " in (error := write(place, 1, copy).stderr)
    assert 'column "tried_out"' in error
