"""One word for each thing: those that the glossary says are not used are not used."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.standin import ROOT

GLOSSARY = ROOT / "docs" / "glossary.md"
FORMS = {
    "bury, burial": r"bury|buri(es|ed|als?)",
    "hand out, hand-out": r"hand(s|ed|ing)?[ _-]outs?",
    "give back": r"gi(ve|ves|ven|ving)[ _]back",
    "on the wire, off the wire, landed": r"(on|off) the wire|landed",
    "rouse, hungry, starving": r"rouse[sd]?|hungry|starving",
    "in vain": r"in[ _]vain",
    "close the books, claim the end": r"close[sd]? (the|its) books|claim(s|ed)?[ _](the[ _])?end",
    "misfit": r"misfits?",
    "unwritable": r"unwritable",
    "farewell, patience": r"farewells?|patience",
    "sweep": r"sweeps?|swept|sweeping",
    "rebuilding, rebuilt": r"rebuil(d|ds|t|ding)",
    "heeded": r"heed(s|ed|ing)?",
}
"""The words of each row, in all their forms."""
READ = (
    "scrapy_durable",
    "carscraper",
    "tests",
    "docs",
    "benchmarks",
    "examples",
    "README.md",
    "CONTRIBUTING.md",
)
KINDS = (".py", ".lua", ".sql", ".md")
NOT_READ = ("docs/decisions/", "docs/glossary.md", "tests/docs/test_glossary.py")
"""Decisions are left as they were made."""


def rows() -> list[str]:
    """What stands in the first column of the glossary's last table."""
    table = GLOSSARY.read_text().partition("## Words that are not used")[2]
    found = re.findall(r"^\| ([^|]+) \| [^|]+ \|$", table, re.MULTILINE)
    return [row for row in found if row != "not"]


def uses(pattern: str, files: list[Path]) -> list[str]:
    """The lines that have such a word, or a name of which it is a part."""
    word = re.compile(rf"(?<![a-zA-Z])({pattern})(?![a-z])", re.IGNORECASE)
    return [
        f"{path.name}:{number}: {line.strip()}"
        for path in files
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if word.search(line)
    ]


@pytest.fixture(scope="module")
def files() -> list[Path]:
    found = [path for name in READ for path in (ROOT / name, *(ROOT / name).rglob("*"))]
    return [
        path
        for path in found
        if path.suffix in KINDS and not str(path.relative_to(ROOT)).startswith(NOT_READ)
    ]


def test_each_row_of_the_table_is_looked_for() -> None:
    assert rows() == list(FORMS)


@pytest.mark.parametrize("row", FORMS)
def test_a_word_that_is_not_used_is_nowhere(row: str, files: list[Path]) -> None:
    assert uses(FORMS[row], files) == []


def test_a_word_is_found_in_any_name(tmp_path: Path) -> None:
    """The counterpart."""
    (file := tmp_path / "one.py").write_text("x = MAX_SWEEPS\nsweeper = 1\n# it was Buried\nlandedness\n")
    assert len(uses(FORMS["sweep"], [file])) == 1
    assert len(uses(FORMS["bury, burial"], [file])) == 1
    assert not uses(FORMS["on the wire, off the wire, landed"], [file])
