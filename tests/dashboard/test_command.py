"""`scrapy dashboard` itself: where it serves, for whom, what it refuses, and a queue that goes away."""

from __future__ import annotations

import asyncio
import signal
import sys
from pathlib import Path

import pytest
from scrapy.settings import Settings

from scrapy_durable.frontier.build import build_frontier
from tests.any_project.project import environment
from tests.crawling import HANGS, wait_until
from tests.dashboard.serving import OWN, TOKEN, command, dashboard, make_project
from tests.redis_server import RedisServer

TAB = """
from pathlib import Path
from scrapy_durable.exceptions import DurableError

class Prices:
    path = "prices"
    title = "Prices"
    templates = Path(__file__).parent

    def __init__(self, settings):
        self.currency = settings["CURRENCY"]

    async def render(self, asked):
        if "fail" in asked.query:
            raise DurableError("the prices are not to be had")
        return asked.template("prices.html", currency=self.currency, plot={"x": [1], "title": "</div>'\\""})
"""
TEMPLATE = """{% extends "tab.html" %}
{% block body %}<p>{{ currency }} of {{ query.get("make", "all") }}</p>
<div class="plot" data-plot="{{ plot | tojson | forceescape }}"></div>{% endblock %}
"""


def refused(project: Path, *arguments: str, **variables: str) -> tuple[int, str]:
    """The exit status of a command that does not serve, and what it said."""
    process = command(project, *arguments, **variables)
    try:
        out, said = process.communicate(timeout=HANGS)
    finally:
        process.kill()
        process.communicate()
    assert out == ""
    return process.returncode, said


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return make_project(tmp_path / "project", JOBDIR=str(tmp_path / "job"))


def test_before_the_first_crawl_it_says_that_there_is_none_and_makes_nothing(project: Path) -> None:
    with dashboard(project) as served:
        assert "No crawl yet. Begin one with <code>scrapy crawl shop</code>" in served.get("/").text
        assert "nothing was given up" in served.get("/dead").text
        assert "Nothing is leased now" in served.get("/leases").text
        assert served.get("/requests/0000000000000001").status == 404
    assert not (project.parent / "job").exists()


def test_ctrl_c_ends_it_with_exit_status_0(project: Path) -> None:
    process = command(project)
    assert process.stdout
    assert process.stdout.readline().startswith("http://127.0.0.1:")
    process.send_signal(signal.SIGINT)
    assert process.communicate(timeout=HANGS) == ("", "")
    assert process.returncode == 0


def test_without_a_token_nobody_logs_in(project: Path) -> None:
    with dashboard(project, DURABLE_DASHBOARD_TOKEN="") as served:
        assert "read-only" in served.get("/").text
        for guess in ("", "anything"):
            assert served.post("/login", {"token": guess}, **OWN).status == 403


def test_where_others_reach_it_nothing_is_shown_without_the_token(project: Path) -> None:
    with dashboard(project, "--host", "0.0.0.0") as served:
        served.address = served.address.replace("0.0.0.0", "127.0.0.1")
        for path in ("/", "/live", "/dead", "/requests/0000000000000001", "/tabs/prices"):
            answer = served.get(path)
            assert (answer.status, answer.headers["Location"]) == (303, "/login")
        part = served.get("/live", HX_Request="true")
        assert (part.status, part.text, part.headers["HX-Redirect"]) == (204, "", "/login")
        assert served.get("/", Cookie=served.log_in()).status == 200


def test_what_cannot_be_served_is_refused_in_one_line(project: Path) -> None:
    nowhere = make_project(project.parent / "nowhere")
    with dashboard(project) as served:
        taken = served.address.rpartition(":")[2]
        for arguments, variables, where, said in (
            (["--host", "0.0.0.0"], {}, project, "set DURABLE_DASHBOARD_TOKEN"),
            ([], {"DURABLE_DASHBOARD_TOKEN": "short"}, project, "DURABLE_DASHBOARD_TOKEN: 16 characters"),
            (["--port", "70000"], {}, project, "--port: 0 to 65535, not 70000"),
            (["--port", taken], {}, project, f"--port {taken}: "),
            (
                ["-s", "DURABLE_DASHBOARD_TABS=shop.none.Tab"],
                {},
                project,
                "DURABLE_DASHBOARD_TABS: shop.none.Tab",
            ),
            ([], {}, nowhere, "set REDIS_URL or JOBDIR"),
        ):
            status, line = refused(where, *arguments, **variables)
            assert status == 2, line
            assert said in line
            assert line.count("\n") == 1
            assert "short" not in line.replace("too short", "")


def test_without_jinja2_it_says_what_to_install(project: Path) -> None:
    (project / "sitecustomize.py").write_text("import sys\nsys.modules['jinja2'] = None\n")
    path = f"{project}:{environment()['PYTHONPATH']}"
    assert sys.executable
    assert refused(project, PYTHONPATH=path) == (
        2,
        "error: scrapy dashboard needs what the extra operate brings; install it with: pip install Jinja2\n",
    )


def test_a_queue_that_goes_away_is_said_to_be_away_until_it_is_back(tmp_path: Path) -> None:
    with RedisServer() as server:
        project = make_project(tmp_path / "project", REDIS_URL=server.url)

        async def begin() -> None:
            frontier = build_frontier(Settings({"REDIS_URL": server.url}), "worker-1", spider="shop")
            await frontier.begin("the-crawl")
            await frontier.close()

        asyncio.run(begin())
        with dashboard(project) as served:
            assert "Crawl the-crawl" in served.get("/").text
            server.kill()
            wait_until(
                lambda: 'data-said="shop is disconnected"' in served.get("/live").text, what="it is away"
            )
            page = served.get("/")
            assert "trying again" in page.text
            assert "Crawl the-crawl" in page.text
            assert served.get("/dead").status == 503
            server.start()
            asyncio.run(begin())
            wait_until(lambda: "disconnected" not in served.get("/live").text, what="it is back")


def test_a_project_adds_a_page_of_its_own(tmp_path: Path) -> None:
    project = make_project(
        tmp_path / "project",
        JOBDIR=str(tmp_path / "job"),
        CURRENCY="<b>R</b>",
        DURABLE_DASHBOARD_TABS=["shop.tabs.Prices"],
    )
    (project / "shop" / "tabs.py").write_text(TAB)
    (project / "shop" / "prices.html").write_text(TEMPLATE)
    with dashboard(project) as served:
        assert '<a href="/tabs/prices"' in served.get("/").text
        page = served.get("/tabs/prices?make=%3Cscript%3E")
        assert page.status == 200
        assert "<p>&lt;b&gt;R&lt;/b&gt; of &lt;script&gt;</p>" in page.text
        assert "</div>'" not in page.text
        assert 'aria-current="page">Prices' in page.text
        failed = served.get("/tabs/prices?fail")
        assert failed.status == 503
        assert "the prices are not to be had" in failed.text
        assert served.get("/tabs/none").status == 404


def test_the_token_is_nowhere_on_a_page(project: Path) -> None:
    with dashboard(project) as served:
        for path in ("/", "/login", "/dead", f"/dead?reason={TOKEN.replace(' ', '+')}"):
            assert TOKEN not in served.get(path, Cookie=served.log_in()).text
