"""The real `scrapy dashboard` of a project of one file, and a reader of its pages."""

from __future__ import annotations

import subprocess
import sys
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from email.message import Message
from pathlib import Path

from tests.any_project.project import environment
from tests.crawling import HANGS

TOKEN = "a token of the tests"

_SPIDER = """
import scrapy

class Shop(scrapy.Spider):
    name = "shop"
"""


def make_project(path: Path, **settings: object) -> Path:
    """A project with one spider."""
    (path / "shop").mkdir(parents=True)
    (path / "scrapy.cfg").write_text("[settings]\ndefault = shop.settings\n")
    (path / "shop" / "__init__.py").touch()
    (path / "shop" / "spider.py").write_text(_SPIDER)
    own = {"SPIDER_MODULES": ["shop.spider"], "ADDONS": {"scrapy_durable.Addon": 400}, **settings}
    (path / "shop" / "settings.py").write_text(
        "".join(f"{name} = {value!r}\n" for name, value in own.items())
    )
    return path


def command(project: Path, *arguments: str, **variables: str) -> subprocess.Popen[str]:
    """`scrapy dashboard`, begun."""
    return subprocess.Popen(
        [sys.executable, "-m", "scrapy", "dashboard", "--port", "0", *arguments],
        cwd=project,
        env={**environment(), **variables},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@dataclass(frozen=True)
class Answer:
    status: int
    headers: Message
    text: str


class Dashboard:
    """Reads pages as a browser would that follows nothing."""

    def __init__(self, address: str) -> None:
        self.address = address.rstrip("/")

    def get(self, path: str, **headers: str) -> Answer:
        return self._ask(path, None, headers)

    def post(self, path: str, form: Mapping[str, str], **headers: str) -> Answer:
        return self._ask(path, urllib.parse.urlencode(form).encode(), headers)

    def log_in(self, token: str = TOKEN) -> str:
        """What a browser sends as `Cookie` from then on."""
        answer = self.post("/login", {"token": token}, **OWN)
        return str(answer.headers["Set-Cookie"]).partition(";")[0]

    def _ask(self, path: str, body: bytes | None, headers: Mapping[str, str]) -> Answer:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        request = urllib.request.Request(self.address + path, body, named)
        try:
            with _OPENER.open(request, timeout=HANGS) as answer:
                return Answer(answer.status, answer.headers, answer.read().decode())
        except urllib.error.HTTPError as error:
            with error:
                return Answer(error.code, error.headers, error.read().decode())


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *arguments: object, **named: object) -> None:
        return None


_OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}), _NoRedirects())
OWN = {"Sec_Fetch_Site": "same-origin"}
"""What a browser says of a form on a page of the dashboard."""


@contextmanager
def dashboard(project: Path, *arguments: str, **variables: str) -> Iterator[Dashboard]:
    """Served while the block runs."""
    process = command(project, *arguments, **{"DURABLE_DASHBOARD_TOKEN": TOKEN, **variables})
    try:
        assert process.stdout
        address = process.stdout.readline().strip()
        if not address:
            raise AssertionError(process.communicate(timeout=HANGS)[1])
        yield Dashboard(address)
    finally:
        process.terminate()
        process.communicate(timeout=HANGS)
