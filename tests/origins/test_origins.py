"""An origin is written in one way, however a URL or a setting writes it."""

from __future__ import annotations

import pytest

from scrapy_durable.exceptions import ConfigurationError
from scrapy_durable.origins import checked_origin, host_of, origin_of


@pytest.mark.parametrize(
    ("url", "origin", "host"),
    [
        ("https://api.cars.co.za/fw/public", "https://api.cars.co.za", "api.cars.co.za"),
        ("https://Host:443/x", "https://host", "host"),
        ("http://host:443", "http://host:443", "host"),
        ("http://[::1]:8080/x", "http://[::1]:8080", "::1"),
    ],
)
def test_the_origin_is_scheme_host_and_port(url: str, origin: str, host: str) -> None:
    assert origin_of(url) == checked_origin("NAME", origin) == origin
    assert host_of(origin) == host


@pytest.mark.parametrize("url", ["ftp://host/", "file:///etc/passwd", "data:,x", "http://host:port/", "host"])
def test_what_is_not_http_has_no_origin(url: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011  urllib's own for a port
        origin_of(url)


@pytest.mark.parametrize(
    ("text", "origin"),
    [("HTTPS://Host:443/", "https://host"), ("https://bücher.example", "https://xn--bcher-kva.example")],
)
def test_a_setting_may_write_it_as_a_browser_takes_it(text: str, origin: str) -> None:
    assert checked_origin("NAME", text) == origin


@pytest.mark.parametrize(
    "text",
    ["", "host", "ftp://host", "https://", "https:///x", "https://host/path", "https://host?a", "https://host#a",
     "https://host:port", "https://me:canary@host", "https://[::1", "https://host:99999"],
)  # fmt: skip
def test_a_setting_that_names_no_origin_is_refused_by_name_without_a_password(text: str) -> None:
    with pytest.raises(ConfigurationError, match=r"^NAME: an origin is needed") as refusal:
        checked_origin("NAME", text)
    assert "canary" not in str(refusal.value)
