"""Settings are checked once, at start, and a bad one is refused by name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from scrapy.settings import Settings

from carscraper import settings as project
from carscraper.config import Config
from carscraper.exceptions import ConfigurationError

NUMBERS = {
    "CARS_PAGE_SIZE": (1, 1000),
    "CARS_SPEC_TTL": (0, None),
    "CARS_KEEP_PAGES": (0, None),
    "CARS_RESPONSES_MAX_BYTES": (0, 2**50),
    "CARS_BATCH_SIZE": (1, 100_000),
    "CARS_BATCH_SECONDS": (0.01, 1.0),
    "CARS_MAX_SWEEPS": (1, 100),
    "CARS_MAX_LISTINGS": (1, 999_999_999),
    "CARS_LEASE_SECONDS": (0.5, 86_400),
    "CARS_MAX_ATTEMPTS": (1, 1000),
}


def config(**values: Any) -> Config:
    settings = Settings()
    settings.setmodule(project)
    settings.setdict(values, priority="cmdline")
    return Config.from_settings(settings)


def test_the_defaults_are_accepted() -> None:
    assert config(CARS_OUTPUT_DIR="data").output_dir == Path("data").absolute()


@pytest.mark.parametrize("name", NUMBERS)
def test_numbers_are_accepted_up_to_their_bounds_and_no_further(name: str) -> None:
    low, high = NUMBERS[name]
    config(**{name: str(low)})
    refused = [low - 0.5 if isinstance(low, float) else low - 1, "", "many", "nan", None]
    if high is not None:
        config(**{name: str(high)})
        refused += [high * 2, "inf"]
    for value in refused:
        with pytest.raises(ConfigurationError, match=f"^{name}: "):
            config(**{name: value})


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
