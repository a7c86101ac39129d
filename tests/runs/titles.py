"""Any project with the add-on and one spider, and its commands by the real command line."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from tests.any_project.project import environment
from tests.crawling import HANGS
from tests.fork_server import start

SPIDER = """
import scrapy

class TitlesSpider(scrapy.Spider):
    name = "titles"

    async def start(self):
        yield scrapy.Request("data:,start")

    def parse(self, response):
        for number in range(4):
            yield {"number": number, "title": "" if number % 2 else "a title"}
        if getattr(self, "fails", None):
            yield scrapy.Request("data:,more", callback=self.parse_more)

    def parse_more(self, response):
        raise ValueError("on purpose")
"""


def make_project(path: Path, settings: str = "", spider: str = SPIDER) -> Path:
    """`settings` are further lines of its `settings.py`."""
    path.mkdir(exist_ok=True)
    (path / "scrapy.cfg").write_text("[settings]\ndefault = titles.settings\n")
    package = path / "titles"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "spider.py").write_text(spider)
    (package / "settings.py").write_text(
        'ADDONS = {"scrapy_durable.Addon": 500}\nSPIDER_MODULES = ["titles.spider"]\nROBOTSTXT_OBEY = False\n'
        f"{settings}\n"
    )
    return path


def start_in(project: Path, *command: str, env: Mapping[str, str] | None = None) -> subprocess.Popen[str]:
    """A command that runs."""
    return start(
        [sys.executable, "-m", "scrapy", *command],
        cwd=project,
        env={**environment(sys.executable), **(env or {})},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def run_in(
    project: Path, *command: str, env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """A command that has ended."""
    with start_in(project, *command, env=env) as process:
        try:
            out, err = process.communicate(timeout=HANGS)
        except subprocess.TimeoutExpired:
            process.kill()
            raise
    return subprocess.CompletedProcess(command, process.returncode, out, err)
