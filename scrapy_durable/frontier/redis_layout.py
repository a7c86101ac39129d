"""The keys of a crawl on a Redis server, and the version of what is in them."""

from __future__ import annotations

FIXED_KEYS = {
    "crawl": "hash",
    "names": "hash",
    "elements": "hash",
    "attempts": "hash",
    "ready": "zset",
    "delayed": "zset",
    "overdue": "set",
    "leases": "hash",
    "deadlines": "zset",
    "in_flight": "hash",
    "rotation": "zset",
    "held": "zset",
    "paused": "hash",
    "dead": "hash",
    "deaths": "zset",
    "tally": "hash",
    "ages": "hash",
    "workers": "hash",
    "replies": "hash",
    "limits": "hash",
    "paces": "hash",
    "gaps": "hash",
    "reports": "hash",
    "logs": "hash",
    "accepted": "zset",
    "reasons": "hash",
    "arrivals": "zset",
    "shares": "hash",
    "asking": "zset",
    "parts": "hash",
}
"""The keys that every script gets, in the order of `lua/keys.lua`, with their types."""

STATE_VERSION = "8"
"""As in `lua/keys.lua`."""
