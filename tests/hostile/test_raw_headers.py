"""No header dead-letters a request at the first try: not a date that no calendar has, nor bytes that are no text."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.hostile.conftest import SECONDS, Start
from tests.raw_site import Answer, RawCatalogue, RawSite, http
from tests.standin import SPEC_PATH

LISTINGS = 24

HEADERS = [
    "Retry-After: Fri, 20 Nov 99999 10:00:00 GMT",
    "Retry-After: Fri, 20 Nov 99999999999999999999999 10:00:00 GMT",
    "Retry-After: Fri, 20 Nov 2026 10:00:00 +99999999999999",
    "Retry-After: -1",
    "Retry-After: 1e999",
    "Retry-After: \xff\xfe",
    "Retry-After: \xb2",
    "Content-Type: \xff\xfe",
    "Content-Type: application/json; charset=\xff",
    "Content-Encoding: \xff",
    "Content-Encoding: \xff, gzip",
    "Content-Disposition: attachment; filename=\xff\xfe",
    "Location: \xff\xfe",
    "Set-Cookie: \xff=\xff",
    "Last-Modified: \xff",
    "ETag: \xff",
    "Date: \xff",
    "Server: \xff",
    "Cf-Mitigated: \xff",
    "X-Y: \xff",
]


class Sometimes:
    """Each specification comes with one of the headers: at the first try under that status, then as it should be."""

    def __init__(self, status: str) -> None:
        self.catalogue = RawCatalogue(listings=LISTINGS)
        self.tries: Counter[str] = Counter()
        self._status = status
        self._headers: dict[str, str] = {}

    def __call__(self, target: str) -> Answer:
        answer = self.catalogue(target)
        if not target.startswith(SPEC_PATH) or not isinstance(answer, bytes):
            return answer
        header = self._headers.setdefault(target, HEADERS[len(self._headers) % len(HEADERS)])
        self.tries[target] += 1
        if self.tries[target] == 1 and self._status != "200 OK":
            return http(b"{}", header, status=self._status)
        body = answer.partition(b"\r\n\r\n")[2]
        if self._status != "200 OK" or "Encoding" in header:
            return answer
        return http(body, header)


@pytest.mark.parametrize("status", ["200 OK", "503 Service Unavailable", "429 Too Many Requests"])
def test_a_header_costs_a_try_at_most(start: Start, status: str) -> None:
    answers = Sometimes(status)
    with RawSite(answers) as site:
        run = start(api_url=site.url, settings={"CARS_PAGE_SIZE": 50})
        code = run.wait(SECONDS)
    assert code == 0, run.log
    assert sorted(run.cars()) == sorted(answers.catalogue.ids)
    assert len(answers.tries) == LISTINGS > len(HEADERS)
    assert max(answers.tries.values()) <= 2
    assert "Traceback" not in run.log
