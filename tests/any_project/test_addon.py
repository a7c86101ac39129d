"""What the add-on does to a project's settings, and what its commands make of a crawl."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from scrapy.settings import Settings

from scrapy_durable.addon import SCHEDULER, Addon
from scrapy_durable.exceptions import ConfigurationError
from tests.any_project.project import environment

RETRY = "scrapy.downloadermiddlewares.retry.RetryMiddleware"
OURS = "scrapy_durable.retry.middleware.RetryMiddleware"
ASYNCIO = "twisted.internet.asyncioreactor.AsyncioSelectorReactor"
SELECT = "twisted.internet.selectreactor.SelectReactor"
SPIDER = """
import scrapy

class One(scrapy.Spider):
    name = "one"
    custom_settings = {settings}

    async def start(self):
        yield scrapy.Request("data:text/html,<p>here</p>")

    def parse(self, response):
        {callback}
"""


def with_addon(**own: Any) -> Settings:
    """The settings of a project that sets its own."""
    settings = Settings({"TWISTED_REACTOR": ASYNCIO, **own}, priority="project")
    Addon().update_settings(settings)
    return settings


def middlewares(settings: Settings) -> dict[str, int | None]:
    return dict(settings.getwithbase("DOWNLOADER_MIDDLEWARES"))


def test_a_project_that_sets_nothing_has_the_scheduler_and_what_belongs_to_it() -> None:
    settings = with_addon()
    assert settings["SCHEDULER"] == SCHEDULER
    assert (middlewares(settings)[RETRY], middlewares(settings)[OURS]) == (None, 550)
    assert "scrapy_durable.any_project.AnyProject" in settings["EXTENSIONS"]


@pytest.mark.parametrize(("own", "place"), [({RETRY: 700}, 700), ({RETRY: None}, None), ({OURS: 1}, 1)])
def test_what_the_project_has_put_somewhere_or_switched_off_stays_so(own: dict[str, Any], place: Any) -> None:
    assert middlewares(with_addon(DOWNLOADER_MIDDLEWARES=own)).get(OURS) == place


def test_a_scheduler_of_the_project_switches_all_of_it_off_and_that_is_said(
    caplog: pytest.LogCaptureFixture,
) -> None:
    settings = with_addon(SCHEDULER="scrapy.core.scheduler.Scheduler")
    assert middlewares(settings)[RETRY] == 550
    assert "sets SCHEDULER to scrapy.core.scheduler.Scheduler" in caplog.text


@pytest.mark.parametrize("own", [{"TWISTED_REACTOR": SELECT}, {"DURABLE_LEASE_SECONDS": "soon"}])
def test_a_setting_that_is_refused_is_named(own: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match=next(iter(own))):
        with_addon(**own)


COMPLETE = ("yield {}", {}, 0, "\ncomplete\n")
FAILED = (
    "raise ValueError",
    {},
    1,
    "\nNOT COMPLETE: 1 requests are dead letters (scrapy queue dead, retry-dead)\n",
)
REFUSED = ("yield {}", {"TWISTED_REACTOR": SELECT}, 2, "TWISTED_REACTOR: ")
NO_URL = ("yield {}", {"REDIS_URL": "nonsense"}, 2, "REDIS_URL: not a URL")
"""Found when the engine opens, which Scrapy then fails to close."""


@pytest.mark.parametrize(
    ("command", "callback", "settings", "status", "said"),
    [
        ("crawl", *COMPLETE),
        ("crawl", *FAILED),
        ("crawl", *REFUSED),
        ("crawl", *NO_URL),
        ("runspider", *COMPLETE),
        ("runspider", *FAILED),
        ("runspider", *REFUSED),
        ("runspider", *NO_URL),
    ],
    ids=[
        "crawl complete",
        "crawl failed",
        "crawl refused",
        "crawl without a Redis",
        "runspider complete",
        "runspider failed",
        "runspider refused",
        "runspider without a Redis",
    ],
)
def test_the_exit_status_tells_how_the_crawl_ended(
    command: str, callback: str, settings: dict[str, str], status: int, said: str, tmp_path: Path
) -> None:
    own = {"ADDONS": {"scrapy_durable.addon.Addon": 500}}
    (tmp_path / "one.py").write_text(SPIDER.format(callback=callback, settings={}))
    (tmp_path / "settings.py").write_text(
        "\n".join(
            f"{name} = {value!r}" for name, value in {**own, **settings, "SPIDER_MODULES": ["one"]}.items()
        )
    )
    env = environment()
    env |= {"SCRAPY_SETTINGS_MODULE": "settings", "PYTHONPATH": f"{tmp_path}{os.pathsep}{env['PYTHONPATH']}"}
    what = "one" if command == "crawl" else "one.py"
    done = subprocess.run(
        [sys.executable, "-m", "scrapy", command, what], cwd=tmp_path, env=env, capture_output=True, text=True
    )
    assert (done.returncode, said in done.stderr) == (status, True), done.stderr
    if status == 2:
        assert "Traceback" not in done.stderr
