"""Origins: the scheme, host and port of a URL, written in one way."""

from __future__ import annotations

from urllib.parse import urlsplit

from w3lib.url import safe_url_string

from scrapy_durable.exceptions import ConfigurationError

DEFAULT_PORTS = {"http": 80, "https": 443}
"""By the schemes that there are origins of."""


def origin_of(url: str) -> str:
    """`https://api.cars.co.za` for any address there: the host in lower case, a default port left out.

    Raises `ValueError` for a URL that is not http or https, or whose port is not a number.
    """
    parts = urlsplit(url)
    if parts.scheme not in DEFAULT_PORTS:
        raise ValueError(f"{parts.scheme!r} is neither http nor https")
    host = parts.hostname or ""
    host = f"[{host}]" if ":" in host else host
    port = "" if parts.port in (None, DEFAULT_PORTS[parts.scheme]) else f":{parts.port}"
    return f"{parts.scheme}://{host}{port}"


def host_of(origin: str) -> str:
    """The host alone, an IPv6 address without its brackets."""
    return urlsplit(origin).hostname or ""


def checked_origin(setting: str, text: str) -> str:
    """The origin that a setting names, as requests write it: a host that is not ASCII in Punycode.

    Raises `ConfigurationError` for anything else than `scheme://host[:port]`; a slash at its end does no harm.
    """
    try:
        written = safe_url_string(text)
        parts = urlsplit(written)
        if (
            parts.hostname
            and "@" not in text
            and not (parts.path.strip("/") or parts.query or parts.fragment)
        ):
            return origin_of(written)
    except ValueError:
        pass
    shown = "***" if "@" in text else repr(text[:200])  # it may hold a password
    raise ConfigurationError(f"{setting}: an origin is needed, http(s)://host[:port], not {shown}")
