"""The core's settings: each with its unit, its default and the reason for it.

Each takes its default from the environment variable of the same name; a project's `settings.py`, `-s NAME=value` and
scrapyd's `setting=NAME=value` go before. `config.py` checks the values.
"""

from __future__ import annotations

import os

DURABLE_ALLOWED_ORIGINS = os.environ.get("DURABLE_ALLOWED_ORIGINS", "")
"""Where requests may go, `http(s)://host[:port]` each, separated by commas. A host that is a public name is then
refused every address that is not public. Empty: anywhere that the spider's `allowed_domains` lets them.
"""

DURABLE_LEASE_SECONDS = os.environ.get("DURABLE_LEASE_SECONDS", "60")
"""Seconds after which a dead worker's requests go to another one. Leases are renewed at a third of it."""

DURABLE_MAX_ATTEMPTS = os.environ.get("DURABLE_MAX_ATTEMPTS", "20")
"""How often a request is leased at most, whatever ended each attempt; one that kills its worker ends
here.
"""

DURABLE_MAX_RETRY_AFTER = os.environ.get("DURABLE_MAX_RETRY_AFTER", "3600")
"""Seconds that a `Retry-After` is followed at most."""

DURABLE_RETRY_BASE_DELAY = os.environ.get("DURABLE_RETRY_BASE_DELAY", "1")
"""Seconds that a request waits at most after its first failure; the bound doubles with each further one."""

DURABLE_RETRY_MAX_DELAY = os.environ.get("DURABLE_RETRY_MAX_DELAY", "300")
"""Seconds that the doubling of `DURABLE_RETRY_BASE_DELAY` never exceeds: no site needs longer to say it is back.
"""

DURABLE_RETRY_PARTIAL = os.environ.get("DURABLE_RETRY_PARTIAL", "False")
"""Whether an answer is tried again that may have been cut: its length was not announced (the flag `partial`), or it is
known to lack something and `DOWNLOAD_FAIL_ON_DATALOSS` lets it pass (`dataloss`). Scrapy takes both for answers, and so
does False. True: where each answer can be seen to be whole.
"""

DURABLE_DEAD_LETTER_DROPPED = os.environ.get("DURABLE_DEAD_LETTER_DROPPED", "False")
"""Whether a request becomes a dead letter whose answer no callback wants (a status such as 404), or that a middleware
drops (off-site, forbidden by robots.txt). Scrapy ends both with a line in the log, and so does False. True: where every
request has to come to an answer.
"""

DURABLE_QUEUE_KEY = os.environ.get("DURABLE_QUEUE_KEY", "")
"""A secret of 32 characters or more, the same for all workers: what they queue, and the answers that they store on
Redis, are signed with it, and nothing else is taken from there. Empty: whoever can write to it is trusted as far as
`docs/security.md` says. Set it in the environment.
"""

DURABLE_PROXIES = os.environ.get("DURABLE_PROXIES", "")
"""Forward proxies, `http://user:password@host:port`, separated by commas; empty: none, or that of `http_proxy` and
`https_proxy`. Set it in the environment: a command line is seen by everyone on the machine.
"""

DURABLE_PROXY_COOLDOWN = os.environ.get("DURABLE_PROXY_COOLDOWN", "30")
"""Seconds, 0.1 to 600, that a proxy rests after it failed, twice as long each time in a row: as long as one takes
to restart.
"""

DURABLE_RESPONSES_DIR = os.environ.get("DURABLE_RESPONSES_DIR", "")
"""Set: answers to requests that ask for it are kept, in `responses.sqlite` in this directory, or on Redis where
`REDIS_URL` is set. Empty: none is.
"""

DURABLE_RESPONSES_NAMESPACE = os.environ.get("DURABLE_RESPONSES_NAMESPACE", "")
"""What the keys of shared answers are unique within, such as the address of an API that there are several of. Empty:
the keys of a spider are unique by themselves.
"""

DURABLE_RESPONSES_MAX_AGE = os.environ.get("DURABLE_RESPONSES_MAX_AGE", str(24 * 3600))
"""Seconds that a shared answer is good: a day, so that tomorrow's crawl asks anew."""

DURABLE_RESPONSES_KEEP = os.environ.get("DURABLE_RESPONSES_KEEP", str(7 * 24 * 3600))
"""Seconds that the answers kept for a crawl stay after its last; 0: none are kept. A week is enough to see that
something is read wrongly, and to mend it.
"""

DURABLE_RESPONSES_MAX_BYTES = os.environ.get("DURABLE_RESPONSES_MAX_BYTES", str(1024**3))
"""Bytes that the response store may take up. Crawls go first, the oldest first; seen to at a crawl's start and end."""

DURABLE_RESPONSES_MAX_SHARED = os.environ.get("DURABLE_RESPONSES_MAX_SHARED", str(64 * 1024**2))
"""Bytes of a shared answer at most, unpacked, 1024 to 64 MiB, and never more than `DOWNLOAD_MAXSIZE`. A larger one is
let go at that size and counts as failed.
"""

DURABLE_RESPONSES_MAX_KEPT = os.environ.get("DURABLE_RESPONSES_MAX_KEPT", str(64 * 1024**2))
"""The same for an answer that is kept for its crawl."""

DURABLE_ITEM_LOG_MAX_BYTES = os.environ.get("DURABLE_ITEM_LOG_MAX_BYTES", str(16 * 1024**3))
"""Bytes that the items may take up in `JOBDIR` that no feed has stored yet, 1 MiB or more: beyond, the crawl waits for
its feeds, and is stopped when they are written at its end.
"""

DURABLE_CONSOLE_LEVEL = os.environ.get("DURABLE_CONSOLE_LEVEL", "")
"""Set beside `LOG_FILE`: what is at this level or above goes to standard error as well. Empty: the file alone has it,
as Scrapy has it.
"""

DURABLE_RUNS_FILE = os.environ.get("DURABLE_RUNS_FILE", "")
"""The file in which each run leaves a line. Empty: `runs.jsonl` in `JOBDIR`, and none without."""

DURABLE_DASHBOARD_TOKEN = os.environ.get("DURABLE_DASHBOARD_TOKEN", "")
"""What `scrapy dashboard` asks for before it replays a dead letter: 16 characters or more. Empty: the pages are for
reading, and for this machine only. Set it in the environment.
"""

DURABLE_DASHBOARD_TABS: list[str] = []
"""Pages that a project adds to `scrapy dashboard`: classes as `scrapy_durable.dashboard.tabs.Tab`, or import paths."""

DURABLE_MONITORS = os.environ.get("DURABLE_MONITORS", "")
"""Monitors of the project's own beside the core's, by import path, separated by commas; see
`scrapy_durable/runs/monitors.py`. Each is called with a run and those before it.
"""

DURABLE_MONITOR_RUNS = os.environ.get("DURABLE_MONITOR_RUNS", "10")
"""How many complete runs a run is compared with, 1 to 1000: the last ones, by their median, so that one odd run changes
little. 0: none is, and no monitor runs.
"""

DURABLE_MONITOR_BOUNDS = {
    "kept_min": 0.7,
    "kept_max": 3.0,
    "fill_min": 0.7,
    "requests_max": 5.0,
    "seconds_max": 5.0,
    "failed_max": 0.1,
    "dead_max": 0.01,
}
"""From where on the core's monitors find something: `kept`, `fill` (of each field), `requests` and `seconds` as
multiples of the median, `failed` and `dead` as shares of the requests beyond the median. None switches one off; what is
not named stays as it is here. Wide: a site changes by a few in a hundred a day, and a response store makes the second
crawl three times as quick as the first.
"""

DURABLE_NOTIFY = os.environ.get("DURABLE_NOTIFY", "")
"""Whom to tell when something is wrong with a run: addresses as Apprise has them, separated by white space, or a list.
They are secrets: set them in the environment.
"""

DURABLE_NOTIFY_TIMEOUT = os.environ.get("DURABLE_NOTIFY_TIMEOUT", "30")
"""Seconds, 1 to 600, that sending may take, all addresses together: as long as a slow mail server. The end of a run
waits no longer.
"""

DURABLE_METRICS_PORT = os.environ.get("DURABLE_METRICS_PORT", "")
"""The port at which a crawl serves `/metrics` and `/healthcheck`, 0: a free one, which is logged. Empty: none is
served.
"""

DURABLE_METRICS_HOST = os.environ.get("DURABLE_METRICS_HOST", "127.0.0.1")
"""The address that these are served at. Another one than loopback shows everybody there the names of sites and
workers.
"""

DURABLE_REPORTED_STATS = {"kept": "item_scraped_count", "requests": "downloader/request_count"}
"""Which stats a worker reports to the others, by the name that they have there: whole numbers, 16 at most. `kept` are
the items passed on, `total` those that there are, as far as the site tells.
"""
