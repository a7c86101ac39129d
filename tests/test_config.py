"""Settings are checked once, at start, and a bad one is refused by name."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from scrapy.crawler import Crawler
from scrapy.settings import Settings

from carscraper import settings as project
from carscraper.config import Config
from carscraper.core_settings import with_core_settings
from carscraper.spiders.cars import CarsSpider
from scrapy_durable.config import Config as CoreConfig
from scrapy_durable.exceptions import ConfigurationError

NUMBERS = {
    "CARS_PAGE_SIZE": (1, 1000),
    "CARS_SPEC_TTL": (0, None),
    "CARS_KEEP_PAGES": (0, None),
    "CARS_RESPONSES_MAX_BYTES": (0, 2**50),
    "CARS_BATCH_SIZE": (1, 100_000),
    "CARS_BATCH_SECONDS": (0.01, 1.0),
    "CARS_MAX_PASSES": (1, 100),
    "CARS_MAX_LISTINGS": (1, 999_999_999),
}
OF_THE_CORE = {
    "DURABLE_LEASE_SECONDS": (0.5, 86_400),
    "DURABLE_MAX_ATTEMPTS": (1, 1000),
    "DURABLE_RETRY_BASE_DELAY": (0.001, 3600),
    "DURABLE_RESPONSES_MAX_AGE": (0, None),
    "DURABLE_RESPONSES_KEEP": (0, None),
    "DURABLE_RESPONSES_MAX_BYTES": (0, 2**50),
    "DURABLE_RESPONSES_MAX_SHARED": (1024, 64 * 1024**2),
    "DURABLE_RESPONSES_MAX_KEPT": (1024, 64 * 1024**2),
}


def config(**values: Any) -> Config:
    settings = Settings()
    settings.setmodule(project)
    settings.setdict(values, priority="cmdline")
    return Config.from_settings(settings)


def test_the_defaults_are_accepted() -> None:
    assert config(CARS_OUTPUT_DIR="data").output_dir == Path("data").absolute()


def core_config(**values: Any) -> CoreConfig:
    return CoreConfig.from_settings(Settings(values, priority="cmdline"))


@pytest.mark.parametrize(
    ("name", "read"), [*((name, config) for name in NUMBERS), *((name, core_config) for name in OF_THE_CORE)]
)
def test_numbers_are_accepted_up_to_their_bounds_and_no_further(
    name: str, read: Callable[..., object]
) -> None:
    low, high = {**NUMBERS, **OF_THE_CORE}[name]
    read(**{name: str(low)})
    refused = [low - 0.5 if isinstance(low, float) else low - 1, "", "many", "nan", None]
    if high is not None:
        read(**{name: str(high)})
        refused += [high * 2, "inf"]
    for value in refused:
        with pytest.raises(ConfigurationError, match=f"^{name}: "):
            read(**{name: value})


def test_this_sites_settings_are_the_cores_for_its_own_spider_and_for_commands() -> None:
    settings = Settings()
    settings.setmodule(project)
    asked = {"CARS_API_URL": "http://site:8080/api/", "CARS_OUTPUT_DIR": "/data", "CARS_SPEC_TTL": 10}
    asked |= {"CARS_KEEP_PAGES": 5, "CARS_RESPONSES_MAX_BYTES": 77, "CARS_MAX_PAGE_BYTES": 4000}
    settings.setdict({**asked, "CARS_MAX_SPEC_BYTES": 2000}, priority="cmdline")
    before = CoreConfig.from_settings(settings)
    for told in (Crawler(CarsSpider, settings).settings, with_core_settings(settings)):
        core = CoreConfig.from_settings(told)
        assert core.allowed_origins == ("http://site:8080",)
        assert (core.responses_dir, core.responses_namespace) == (Path("/data"), "http://site:8080/api")
        assert (core.responses_max_age, core.responses_keep, core.responses_keep_shared) == (10, 5, 15)
        assert (core.responses_max_bytes, core.responses_max_kept, core.responses_max_shared) == (
            77,
            4000,
            2000,
        )
    assert CoreConfig.from_settings(settings) == before
    assert (before.allowed_origins, before.responses_dir) == ((), None)


@pytest.mark.parametrize("value", [["kept"], "kept", '["kept"]', {"kept": 1}, 7])
def test_stats_to_be_reported_are_names_by_names(value: object) -> None:
    assert core_config(DURABLE_REPORTED_STATS='{"a": "b"}').reported_stats == {"a": "b"}
    with pytest.raises(ConfigurationError, match=r"^DURABLE_REPORTED_STATS: an object of names"):
        core_config(DURABLE_REPORTED_STATS=value)


@pytest.mark.parametrize("value", ["maybe", "yes", 7])
def test_what_is_neither_on_nor_off_is_refused(value: object) -> None:
    assert config(CARS_SHARE_WITH_GROUP="True").share_with_group
    assert not config(CARS_SHARE_WITH_GROUP="0").share_with_group
    with pytest.raises(ConfigurationError, match=r"^CARS_SHARE_WITH_GROUP: True or False"):
        config(CARS_SHARE_WITH_GROUP=value)


@pytest.mark.parametrize(
    "url", ["", "nonsense", "/fw/public", "ftp://site/", "http://", "http://site:99999/", "http://a b/"]
)
def test_what_is_no_address_of_an_api_is_refused(url: str) -> None:
    with pytest.raises(ConfigurationError, match="CARS_API_URL"):
        config(CARS_API_URL=url)


def test_credentials_in_the_address_are_refused_and_not_repeated() -> None:
    with pytest.raises(ConfigurationError, match="credentials") as refused:
        config(CARS_API_URL="https://me:canary@site/")
    assert "canary" not in str(refused.value)


@pytest.mark.parametrize("directory", ["", "  ", "da\0ta"])
def test_what_is_no_directory_is_refused(directory: str) -> None:
    with pytest.raises(ConfigurationError, match="CARS_OUTPUT_DIR"):
        config(CARS_OUTPUT_DIR=directory)


def test_the_output_directory_is_made_and_left_empty(tmp_path: Path) -> None:
    made = config(CARS_OUTPUT_DIR=str(tmp_path / "a" / "b"))
    made.make_output_dir()
    assert list((tmp_path / "a" / "b").iterdir()) == []


def test_an_output_directory_below_a_file_is_refused_with_the_reason(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(
        ConfigurationError, match=r"CARS_OUTPUT_DIR: .*file/data cannot be written: Not a dir"
    ):
        config(CARS_OUTPUT_DIR=str(tmp_path / "file" / "data")).make_output_dir()


def test_a_scrapy_that_is_too_old_for_this_crawl_is_refused_by_its_version(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    settings = Settings({name: getattr(project, name) for name in dir(project) if name.isupper()})
    Config.from_settings(settings)
    monkeypatch.setattr("scrapy.version_info", (2, 18, 4))
    with pytest.raises(ConfigurationError, match=r"Scrapy .* is installed; this crawl needs 2\.19 or newer"):
        Config.from_settings(settings)
