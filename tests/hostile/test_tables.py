"""Feeds of what a hostile site says: a spreadsheet runs none of it, and every parser reads it."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.hostile.conftest import SECONDS, Start
from tests.standin import StandIn

FORMULAS = ["=1+1", "\n=1+1", "\u00a0=1+1", "\ufeff@SUM(1)", " -1+1", "＝1+1", "\t＋1"]
BLANK = " \t\n\u00a0\ufeff"
CONTROLS = "bell \x07 escape \x1b[2J not a character \uffff end"
NAMES = ["two words", "<b>", "1st", "a:b", "\x07", "xmlns"]


def says(place: str, value: object) -> dict[str, object]:
    """A rule that has the site say this of the listings of a page."""
    path = f"data[*].attributes.{place}"
    return {"match": "vehicle\\?", "fault": "edit", "path": path, "do": "set", "to": value}


def test_no_cell_is_run(site: StandIn, start: Start, tmp_path: Path) -> None:
    rules = [
        {**says("title", formula), "match": f"offset(\\]|%5D)={20 * page}\\b"}
        for page, formula in enumerate(FORMULAS)
    ]
    site.faults(rules)
    run = start("-O", str(tmp_path / "cars.csv"), settings={"CARS_PAGE_SIZE": 20})
    assert run.wait(SECONDS) == 0, run.log
    with (tmp_path / "cars.csv").open(newline="", encoding="utf-8") as file:
        titles = {row["title"] for row in csv.DictReader(file)}
    # A typed text has no blanks around it.
    quoted = {title[1:].strip(BLANK) for title in titles if title.startswith("'")}
    assert {formula.strip(BLANK) for formula in FORMULAS} == quoted
    assert not [title for title in titles if title.strip(BLANK).startswith(tuple("=+-@＝＋－＠"))]


def test_xml_is_well_formed_whatever_the_site_says(site: StandIn, start: Start, tmp_path: Path) -> None:
    site.faults([says("title", CONTROLS)])
    run = start("-a", "limit=10", "-O", str(tmp_path / "cars.xml"))
    assert run.wait(SECONDS) == 0, run.log
    items = ElementTree.parse(tmp_path / "cars.xml").getroot()
    assert len(items) == 10
    titles = [item.findtext("car_attrs/title") for item in items]
    assert CONTROLS.translate({7: 0xFFFD, 27: 0xFFFD, 0xFFFF: 0xFFFD}) in titles


@pytest.mark.parametrize("name", NAMES)
def test_xml_is_well_formed_whatever_a_field_is_called(
    site: StandIn, start: Start, tmp_path: Path, name: str
) -> None:
    site.faults([says(name, {name: ["x"]})])
    run = start("-a", "limit=10", "-O", str(tmp_path / "cars.xml"))
    assert run.wait(SECONDS) == 0, run.log
    items = ElementTree.parse(tmp_path / "cars.xml").getroot()
    assert len(items) == 10
    attributes = [record["car_attrs"] for record in json.loads((run.place / "cars.json").read_bytes())]
    assert [each for each in attributes if name in each]


def test_a_second_document_is_not_put_behind_the_first(site: StandIn, start: Start, tmp_path: Path) -> None:
    (tmp_path / "cars.xml").write_text("<items/>")
    run = start("-o", str(tmp_path / "cars.xml"))
    assert run.wait(SECONDS) == 2, run.log
    assert "XML cannot be appended to; -O replaces the file" in run.log
    assert site.journal() == []
