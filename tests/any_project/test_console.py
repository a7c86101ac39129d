"""The log in a file and on the console, each at its own level."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.any_project.project import environment
from tests.crawling import HANGS

SPIDER = """
import scrapy

class Silent(scrapy.Spider):
    name = "silent"
    start_urls = ["data:,nothing"]
    custom_settings = {"ADDONS": {"scrapy_durable.Addon": 500}}

    def parse(self, response):
        self.logger.debug("a detail")
        self.logger.info("a fact")
        self.logger.warning("a warning")
"""


def crawl(directory: Path, **settings: str) -> tuple[str, str]:
    """What it writes to standard error, and to the file."""
    (directory / "silent.py").write_text(SPIDER)
    words = [word for name, value in settings.items() for word in ("-s", f"{name}={value}")]
    done = subprocess.run(
        [sys.executable, "-m", "scrapy", "runspider", "silent.py", "-s", "LOG_FILE=all.log", *words],
        cwd=directory,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=HANGS,
    )
    assert done.returncode == 0, done.stderr
    return done.stderr, (directory / "all.log").read_text()


def said(text: str) -> list[str]:
    return [words for words in ("a detail", "a fact", "a warning") if words in text]


@pytest.mark.parametrize(
    ("file", "console", "in_file", "on_console"),
    [
        ("DEBUG", "WARNING", ["a detail", "a fact", "a warning"], ["a warning"]),
        ("WARNING", "10", ["a warning"], ["a detail", "a fact", "a warning"]),
        ("INFO", "", ["a fact", "a warning"], []),
    ],
)
def test_each_has_its_own_level(
    file: str, console: str, in_file: list[str], on_console: list[str], tmp_path: Path
) -> None:
    shown, written = crawl(tmp_path, LOG_LEVEL=file, DURABLE_CONSOLE_LEVEL=console)
    assert (said(written), said(shown)) == (in_file, on_console)


def test_a_level_that_there_is_none_of_is_refused(tmp_path: Path) -> None:
    (tmp_path / "silent.py").write_text(SPIDER)
    done = subprocess.run(
        [sys.executable, "-m", "scrapy", "runspider", "silent.py", "-s", "DURABLE_CONSOLE_LEVEL=loud"],
        cwd=tmp_path,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=HANGS,
    )
    assert done.returncode == 2
    assert "DURABLE_CONSOLE_LEVEL: a level such as INFO or WARNING is needed, not 'loud'" in done.stderr
