"""A page that asks for a human being instead of answering stops the crawl; nothing here evades it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from scrapy_durable.retry.middleware import RequestFailed
from scrapy_durable.scheduler import frontier_scheduler
from scrapy_durable.stopping import stop_crawl

if TYPE_CHECKING:
    from typing import Self

    from scrapy import Request
    from scrapy.crawler import Crawler
    from scrapy.http import Response

_STATUSES = frozenset((200, 401, 403, 405, 429, 503))
"""With which challenges were seen, of several vendors."""

_MARKS = re.compile(
    rb"<title>\s*(?:just a moment|attention required|one more step|verifying you are human|please wait)"
    rb"|enable javascript and cookies to continue|checking (?:if the site connection is secure|your browser)"
    rb"|verify(?:ing)? (?:that )?you are (?:a )?human|cf-chl-|/cdn-cgi/challenge-platform/|cf_chl_opt"
    rb"|g-recaptcha|h-captcha|px-captcha|captcha-delivery\.com|_incapsula_resource|awswafcookie",
    re.IGNORECASE,
)
_HEAD = 64 * 1024
"""Bytes of a body that are looked at."""


def is_challenge(status: int, mitigated: bytes | None, body: bytes) -> bool:
    """Whether a response is a page that wants to know who is asking, instead of an answer.

    `mitigated` is the header `cf-mitigated`, which Cloudflare sets to `challenge` on such pages. Otherwise it
    takes a status that challenges come with, a body that is markup, and a phrase or an address that such
    pages hold; a page of HTML without is an answer gone wrong, and no challenge.
    """
    if mitigated is not None and mitigated.strip().lower() == b"challenge":
        return True
    if status not in _STATUSES:
        return False
    head = body[:_HEAD].lstrip(b"\xef\xbb\xbf \t\r\n")
    return head.startswith(b"<") and _MARKS.search(head) is not None


class ChallengeMiddleware:
    """Stops the crawl with the finish reason `challenge` at the first response that is one.

    Its request goes back to the frontier, untried, so a crawl that can be resumed lacks nothing once the
    operator has settled with the site how it may be read. It stands on the engine's side of decompression,
    and before retry on the way back.

    Stat: `challenge/count`.
    """

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Never refuses."""
        return cls(crawler)

    def process_response(self, request: Request, response: Response) -> Response:
        """Let the response pass, or raise `RequestFailed` once the crawl is being stopped."""
        if response.body[:1] == b"{" and response.status == 200:
            return response
        if not is_challenge(response.status, response.headers.get("cf-mitigated"), response.body):
            return response
        self._crawler.stats.inc_value("challenge/count")
        scheduler = frontier_scheduler(self._crawler)
        if scheduler and scheduler.outcomes.is_leased(request):
            scheduler.outcomes.release(request)
        why = f"{request.url} was answered with a challenge (status {response.status}); ask the site's owner for access"
        stop_crawl(self._crawler, "challenge", why)
        raise RequestFailed("a challenge")
