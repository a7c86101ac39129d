"""Records that a database cannot hold: they alone are set aside, with their reason, and their neighbours are stored."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.crawling import crawl
from tests.databases.looking import Databases, kept
from tests.standin import StandIn

POISONED = 10
LISTINGS = 1000
STRAIGHT = {"CARS_BACKLOG_MAX_BYTES": 0}
"""No room on disk, from where a record would be handed to its database, and refused, for a second time."""


KINDS: dict[str, tuple[Any, set[str]]] = {
    "an integer beyond 64 bits, signed": ({"n": 2**63}, {"MongoDB"}),
    "a NUL in a key": ({"a\0b": 1}, {"MongoDB", "PostgreSQL"}),
    "a NUL in a text": ("a\0b", {"PostgreSQL"}),
}
"""What a value is poisoned with, and which databases cannot hold it. (One that is nested too deeply is set aside when
its page is read.)
"""


@pytest.mark.parametrize("kind", KINDS)
def test_ten_among_a_thousand_are_set_aside_alone(
    kind: str, databases: Databases, stand_in: Callable[..., StandIn], tmp_path: Path
) -> None:
    value, refusing = KINDS[kind]
    site = stand_in(LISTINGS)
    # In a row of each page where no featured listing stands, which would come again elsewhere, sound.
    rules = [
        {
            "match": f"offset%5D={100 * page}&",
            "fault": "edit",
            "path": "data[60].attributes.sunroof",
            "do": "set",
            "to": value,
        }
        for page in range(POISONED)
    ]
    site.faults(rules)
    with crawl(site.url, tmp_path, settings=STRAIGHT, env=databases.env) as run:
        assert run.wait(60) == 1, run.log
    records = kept(tmp_path)
    assert len(records) == LISTINGS
    poisoned = {key for key, record in records.items() if record["car_attrs"].get("sunroof") == value}
    assert len(poisoned) == POISONED
    stored = {"MongoDB": set(databases.documents()), "PostgreSQL": set(databases.rows())}
    for name, ids in stored.items():
        assert ids == (records.keys() - poisoned if name in refusing else records.keys()), name
    found = run.run_json()
    aside = {(item["store"], item["id"]): item["problem"] for item in found["set_aside"]}
    assert aside.keys() == {(name, key) for name in refusing for key in poisoned}
    assert all(aside.values())
    for name in refusing:
        assert f"{POISONED} listings were set aside by {name}" in found["reasons"]
        assert run.log.count(f"{name} cannot hold listing") == POISONED
    assert json.dumps(found).isprintable()


def test_records_that_a_pipeline_has_made_something_else_of_are_set_aside_alone(
    databases: Databases, stand_in: Callable[..., StandIn], tmp_path: Path
) -> None:
    """JSON has them as they are; no typed row can be made of them."""
    site = stand_in(200)
    rearranged = set(site.ids()[100:110])
    pipelines = {
        "tests.databases.pipelines.Rearranging": 100,
        "carscraper.pipelines.item_log.ItemLogPipeline": 900,
        "carscraper.pipelines.databases.MongoPipeline": 910,
        "carscraper.pipelines.databases.PostgresPipeline": 920,
    }
    env = {**databases.env, "REARRANGED": ",".join(rearranged)}
    with crawl(site.url, tmp_path, settings={"ITEM_PIPELINES": json.dumps(pipelines)}, env=env) as run:
        assert run.wait(60) == 1, run.log
    records = kept(tmp_path)
    assert len(records) == 200
    assert set(databases.documents()) == set(databases.rows()) == records.keys() - rearranged
    found = run.run_json()["set_aside"]
    named = {(item["store"], item["id"]) for item in found}
    assert named == {(name, key) for name in ("MongoDB", "PostgreSQL") for key in rearranged}
    assert {item["problem"] for item in found} == {
        """no row can be made of it: TypeError("'int' object is not iterable")"""
    }
