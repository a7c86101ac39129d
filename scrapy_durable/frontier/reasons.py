"""What kind a reason is of: its text without what is different each time, so that equal faults are counted together."""

from __future__ import annotations

import re

LONGEST = 100
"""Characters of a kind."""
MOST_KINDS = 200
"""That are told apart in one crawl, retries and dead letters together (`exchange/sums.lua` has it too); all others are
`OTHER`.
"""
OTHER = "other"
LEASE_EXPIRED = "lease expired after N attempts"
"""As the backends say it themselves."""

_READ = 1000
"""Characters of a reason that are looked at."""
_TRIES_OR_BODY = re.compile(r",? \d+ tries\b.*|; body begins .*", re.DOTALL)
_DIFFERENT_EACH_TIME = (
    (re.compile(r"\b[A-Za-z][A-Za-z0-9+.-]*://[^\s'\"<>]*"), "…"),
    (re.compile(r"(?<!\w)b?'[^']*'|(?<!\w)b?\"[^\"]*\""), "…"),
    (re.compile(r"(?<!\bstatus )\b\d(?:[\w.]*\w)?|\b(?=[a-f]*\d)[0-9a-f]{8,}\b"), "N"),
)


def kind_of(reason: str) -> str:
    """The reason without URLs, quoted text, numbers and the beginning of a body; the number of a status stays.

    "status 503, 3 tries; body begins b'…'" is of the kind "status 503".
    """
    text = _TRIES_OR_BODY.sub("", reason[:_READ])
    for pattern, stand_in in _DIFFERENT_EACH_TIME:
        text = pattern.sub(stand_in, text)
    text = "".join(char if char.isprintable() else " " for char in text)
    return " ".join(text.split())[:LONGEST].rstrip() or OTHER
