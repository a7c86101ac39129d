"""Who may read the pages, and who may act on the crawl; and the headers that keep a page to itself."""

from __future__ import annotations

import hmac
import ipaddress
import secrets
import time
from urllib.parse import urlsplit

from aiohttp import web

from scrapy_durable.exceptions import ConfigurationError

COOKIE = "scrapy-dashboard"
SHORTEST_TOKEN = 16
"""Characters: guessing is hopeless then."""
_SESSION_SECONDS = 12 * 3600.0
_MOST_SESSIONS = 100


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches that address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def check_access(host: str, token: str) -> None:
    """Raises `ConfigurationError` for a token that is too short, and for none where others reach the page."""
    if token and len(token) < SHORTEST_TOKEN:
        raise ConfigurationError(f"DURABLE_DASHBOARD_TOKEN: {SHORTEST_TOKEN} characters or more are needed")
    if not token and not is_loopback(host):
        raise ConfigurationError(
            f"--host {host}: others reach it; set DURABLE_DASHBOARD_TOKEN in the environment first"
        )


class Sessions:
    """Those who have given the token, each known by a cookie that says nothing about it."""

    def __init__(self, token: str) -> None:
        """Empty: nobody may act."""
        self._token = token.encode()
        self._ends: dict[str, float] = {}

    @property
    def possible(self) -> bool:
        """False when there is no token."""
        return bool(self._token)

    def open(self, token: str) -> str | None:
        """What the cookie holds from now on; None for a wrong token."""
        if not self._token or not hmac.compare_digest(token.encode(errors="replace"), self._token):
            return None
        while len(self._ends) >= _MOST_SESSIONS:
            del self._ends[next(iter(self._ends))]
        session = secrets.token_urlsafe(32)
        self._ends[session] = time.monotonic() + _SESSION_SECONDS
        return session

    def has(self, request: web.Request) -> bool:
        """Whether whoever asks has given the token."""
        return self._ends.get(request.cookies.get(COOKIE, ""), 0.0) > time.monotonic()

    def close(self, request: web.Request) -> None:
        """End the session of whoever asks."""
        self._ends.pop(request.cookies.get(COOKIE, ""), None)


def check_host(request: web.Request) -> None:
    """Raises `HTTPMisdirectedRequest` for a name that is not this machine's: a page of another site, whose name was
    made to lead here, would read this one otherwise.
    """
    try:
        name = urlsplit(f"//{request.headers.get('Host', '')}").hostname
    except ValueError:
        name = None
    if name is None or not is_loopback(name):
        raise web.HTTPMisdirectedRequest(text="Ask for it as 127.0.0.1 or localhost.")


def check_origin(request: web.Request) -> None:
    """Raises `HTTPForbidden` for what another site's page has sent."""
    site = request.headers.get("Sec-Fetch-Site")
    if site is not None:
        same = site == "same-origin"
    else:
        # Not the scheme: a proxy in front may have TLS, and this page has not.
        host = request.headers.get("Host", "")
        same = request.headers.get("Origin") in (f"http://{host}", f"https://{host}")
    if not same:
        raise web.HTTPForbidden(text="That did not come from a page of this dashboard, so nothing was done.")


def headers(nonce: str) -> dict[str, str]:
    """Of every answer: only scripts and styles with the nonce, nothing from elsewhere, in nobody's frame."""
    return {
        "Content-Security-Policy": (
            f"default-src 'none'; script-src 'nonce-{nonce}'; style-src 'nonce-{nonce}'; img-src 'self'; "
            "connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
        ),
        "X-Content-Type-Options": "nosniff",
        "X-Frame-Options": "DENY",
        "Referrer-Policy": "same-origin",
        "Cross-Origin-Opener-Policy": "same-origin",
        "Cross-Origin-Resource-Policy": "same-origin",
        "Cache-Control": "no-store",
    }
