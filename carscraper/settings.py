"""The wiring: every component and why it stands there, every setting with its unit, default and reason.

Each public setting (`CARS_…`, `REDIS_URL`, `MONGO_URI`, `POSTGRES_DSN`, `JOBDIR`) takes its default from the
environment variable of the same name; `-s NAME=value` and scrapyd's `setting=NAME=value` go before.
`config.py` checks the values; `docs/settings.md` is the manual. What is not named here is as Scrapy has it.
"""

from __future__ import annotations

import os

from scrapy.settings import default_settings

BOT_NAME = "carscraper"
SPIDER_MODULES = ["carscraper.spiders"]
COMMANDS_MODULE = "carscraper.commands"

# Public settings

CARS_API_URL = os.environ.get("CARS_API_URL", "https://api.cars.co.za/fw/public")
"""Where the API is: an absolute http or https URL. Its origin is also the only one that this spider's requests may
go to."""

CARS_OUTPUT_DIR = os.environ.get("CARS_OUTPUT_DIR", "data")
"""Directory of `cars.json`, `cars.incomplete.json`, `run.json`, the committed batches and the stored responses; made
when it is missing.
"""

CARS_PAGE_SIZE = os.environ.get("CARS_PAGE_SIZE", "100")
"""Listings per page asked for, 1 to 1000. The API may give fewer; the size of its answer is what counts."""

CARS_SPEC_TTL = os.environ.get("CARS_SPEC_TTL", str(30 * 24 * 3600))
"""Seconds that a stored spec is good: 30 days, since the specification of a variant and year hardly changes.
"""

CARS_KEEP_PAGES = os.environ.get("CARS_KEEP_PAGES", str(7 * 24 * 3600))
"""Seconds that the listing pages of a crawl are kept after its last, for `scrapy reparse`; 0: none are kept. A week is
enough to see that a record is read wrongly, and to mend it.
"""

CARS_RESPONSES_MAX_BYTES = os.environ.get("CARS_RESPONSES_MAX_BYTES", str(1024**3))
"""Bytes that the response store may take up: fifty crawls of the whole catalogue. Crawls go first, the oldest first;
seen to at a crawl's start and end.
"""

CARS_MAX_PAGE_BYTES = os.environ.get("CARS_MAX_PAGE_BYTES", str(4 * 1024**2))
"""Bytes of a listing page at most, unpacked, 1024 to 64 MiB: one of 1000 listings has 2 MB. A larger one is let go at
that size and counts as failed.
"""

CARS_MAX_SPEC_BYTES = os.environ.get("CARS_MAX_SPEC_BYTES", str(256 * 1024))
"""Bytes of a specification at most, unpacked, 1024 to 64 MiB: one has about 15 KB, and each listing that shares it
repeats it on the disk. A larger one counts as failed.
"""

CARS_BATCH_SIZE = os.environ.get("CARS_BATCH_SIZE", "500")
"""Records per batch. Larger ones save fsyncs; four of them may be in memory at once."""

CARS_BATCH_SECONDS = os.environ.get("CARS_BATCH_SECONDS", "1")
"""Seconds after which a batch is committed although it is not full, 0.01 to 1; requests are acknowledged
after that.
"""

CARS_MAX_LISTINGS = os.environ.get("CARS_MAX_LISTINGS", "1000000")
"""Listings that a catalogue may hold, 1 to 999,999,999: no page beyond is asked for, whatever the site announces, so
that a walk ends even where every page brings something new. Far more than the 71,290 that there were.
"""

CARS_MAX_PASSES = os.environ.get("CARS_MAX_PASSES", "4")
"""How often all listing pages are read at most, when listings come and go meanwhile."""

CARS_MAX_DRIFT = os.environ.get("CARS_MAX_DRIFT", "0.05")
"""Share of the listings, and of the specifications, 0 to 1, that may be useless because their id, code or year, or
all of them, cannot be read; above it the crawl stops with `api_changed`. One in twenty is more than odd data explains.
"""

CARS_SCHEMA_CONTRACT = os.environ.get("CARS_SCHEMA_CONTRACT", "evolve")
"""What an answer means that departs from its known shape, in the words of data contracts. `evolve`: it is kept as it
came, and counted in `run.json`. `freeze`: the first one stops the crawl with `schema_changed`.
"""

CARS_MIN_KEPT_SHARE = os.environ.get("CARS_MIN_KEPT_SHARE", "0.5")
"""Share, 0 to 1, of the listings in the last complete `cars.json` that a crawl of the whole catalogue has to find to be
believed. Half: cars are sold and entered a few in a hundred a day, and what takes every second one away is an outage.
0 accepts what there is; meant for one run.
"""

CARS_MIN_FILL_SHARE = os.environ.get("CARS_MIN_FILL_SHARE", "0.8")
"""Share, 0 to 1, of the listings that have make, model, year and price, below which a monitor finds something; what
`CARS_LEAVE_OUT` leaves out aside. Nearly all of them have each. 0: it never does.
"""

CARS_MAX_REMOVED_SHARE = os.environ.get("CARS_MAX_REMOVED_SHARE", "0.2")
"""Share, 0 to 1, of the listings of before that a crawl of the whole catalogue may find removed until a monitor finds
that unusual: a week's worth of sales. 1: it never does.
"""

CARS_BACKLOG_MAX_BYTES = os.environ.get("CARS_BACKLOG_MAX_BYTES", str(1024**3))
"""Bytes of records that a database may be behind what a process has logged, at most: three catalogues. When it is, the
crawl waits.
"""

CARS_STORE_TIMEOUT = os.environ.get("CARS_STORE_TIMEOUT", "60")
"""Seconds that the end of a crawl waits for a database that takes nothing, 0 to 86400: as long as one restarts.
What it has not taken by then is delivered by the next run.
"""

CARS_SHARE_WITH_GROUP = os.environ.get("CARS_SHARE_WITH_GROUP", "False")
"""True: what a crawl writes may be read and changed by the group of its user. Else by that user alone: records hold
sellers' names and places.
"""

CARS_LEAVE_OUT = os.environ.get("CARS_LEAVE_OUT", "")
"""Attributes of listings that are never kept, by name, separated by commas, `*` for any letters: `agent_*,description`.
Empty: all are kept, since only the operator knows what they are needed for.
"""

CARS_DELETE_REMOVED_AFTER = os.environ.get("CARS_DELETE_REMOVED_AFTER", "")
"""Seconds after which databases delete a listing that was removed from the site, with its history. Empty: never, since
how long listings stay, and at what price, is what most want to know.
"""

CARS_CONTACT = os.environ.get("CARS_CONTACT", "")
"""Who runs the crawl: a mail address or an http(s) URL, told to the site in `USER_AGENT`. Nobody else can know it."""

MONGO_URI = os.environ.get("MONGO_URI")
"""Set: records also go to this MongoDB, `mongodb://host:port/database`."""

POSTGRES_DSN = os.environ.get("POSTGRES_DSN")
"""Set: records also go to this PostgreSQL, `postgresql://host:port/database`."""

REDIS_URL = os.environ.get("REDIS_URL")
"""Set: frontier and response store are shared by all workers on this Redis."""

JOBDIR = os.environ.get("JOBDIR")
"""Set, and `REDIS_URL` not: the frontier is a file in this directory, and a crawl that was stopped goes on.
"""

# scrapy-redis' settings, which keep their meaning; see docs/settings.md

# Politeness: against the live site four at once, slower when it slows down, and honest about who asks

USER_AGENT = "carscraper/0.1 (a catalogue crawler; set CARS_CONTACT to say who runs it)"
ROBOTSTXT_OBEY = True
CONCURRENT_REQUESTS = 16  # of which four in flight; the others wait for specs under way or are being parsed
CONCURRENT_REQUESTS_PER_DOMAIN = 4
AUTOTHROTTLE_ENABLED = True
AUTOTHROTTLE_START_DELAY = 0.5
AUTOTHROTTLE_TARGET_CONCURRENCY = 4.0
DOWNLOAD_DELAY = 0
# The frontier spaces out the requests of all workers. A random delay on top, drawn by each, would hold up what
# has its time already, and could take longer than the interval.
DOWNLOAD_DELAY_JITTER = 0
DEFAULT_REQUEST_HEADERS = {"Accept": "application/json"}
DOWNLOAD_TIMEOUT = 30  # an answer takes well under a second; three minutes would hold up a place for nothing
RETRY_TIMES = 8  # with the waits of retry/backoff.py this spans a few minutes, as long as a site restarts

# Safety

DOWNLOAD_VERIFY_CERTIFICATES = True  # off in Scrapy
# Bytes, whatever the kind of answer; CARS_MAX_PAGE_BYTES and CARS_MAX_SPEC_BYTES are closer. Scrapy's default is 1 GiB.
DOWNLOAD_MAXSIZE = 8 * 1024 * 1024
DOWNLOAD_WARNSIZE = 0
REMOTE_CONTROL_ENABLED = False  # on in Scrapy 2.19: a server that executes Python
TELNETCONSOLE_ENABLED = False  # the same, and it logs its password
REDIRECT_ENABLED = False  # an API call that is redirected has failed
METAREFRESH_ENABLED = False
COOKIES_ENABLED = False
REFERER_ENABLED = False
HTTPPROXY_ENABLED = True
DOWNLOAD_HANDLERS = {
    "http": "scrapy_durable.downloads.GuardedDownloadHandler",
    "https": "scrapy_durable.downloads.GuardedDownloadHandler",
    # An API is asked over HTTP only.
    "data": None,
    "file": None,
    "ftp": None,
    "s3": None,
}

# The core's settings

DURABLE_DEAD_LETTER_DROPPED = True  # each request stands for listings
DURABLE_RETRY_PARTIAL = True  # the API announces the length of what it sends

DURABLE_REPORTED_STATS = {
    "kept": "catalogue/kept",  # items are scraped again where the site repeats a listing
    "requests": "downloader/request_count",
    "total": "catalogue/total",
    "entries": "item_log/entries",  # for whoever does not see this worker's directory
}

DURABLE_DASHBOARD_TABS = ["carscraper.dashboard.page.CarsTab"]  # what the crawl has brought

# Speed

TWISTED_REACTOR = "twisted.internet.asyncioreactor.AsyncioSelectorReactor"
ASYNCIO_EVENT_LOOP = "uvloop.Loop"
# Tasks started per response. Pipelines only put records into a batch, so more tasks cost time and gain none.
CONCURRENT_ITEMS = 1
STATS_CLASS = "carscraper.monitoring.lean_stats.LeanStatsCollector"
LOG_FORMATTER = "carscraper.monitoring.logformatter.QuietLogFormatter"
# Bytes of answers being parsed: three pages. With Scrapy's five million a crawl takes 80 MB more.
SCRAPER_SLOT_MAX_ACTIVE_SIZE = 500_000
DNS_TIMEOUT = 10

# Components

SCHEDULER = "scrapy_durable.scheduler.FrontierScheduler"
REQUEST_FINGERPRINTER_CLASS = "carscraper.catalogue.fingerprints.RequestFingerprinter"

DOWNLOADER_MIDDLEWARES = {
    # Nearest to the engine, so that it hears of every failure that nobody else has caught.
    "scrapy_durable.retry.middleware.LastWordMiddleware": 10,
    # In Scrapy's place: a robots.txt that cannot be had means wait, not that all is allowed.
    "scrapy.downloadermiddlewares.robotstxt.RobotsTxtMiddleware": None,
    "scrapy_durable.robots.RobotsTxtMiddleware": 100,
    # In Scrapy's place, with a place to wait.
    "scrapy.downloadermiddlewares.retry.RetryMiddleware": None,
    "scrapy_durable.retry.middleware.RetryMiddleware": 550,
    # Before retry on the way back, which would try again.
    "scrapy_durable.retry.challenge.ChallengeMiddleware": 560,
    # Between the store, which hears of every failure, and retry, which must not count those of a proxy.
    "scrapy_durable.proxies.ProxiesMiddleware": 570,
    # On the engine's side of decompression (590): it keeps plain bodies. Before retry on the way back: it
    # keeps no failures.
    "scrapy_durable.responses.middleware.ResponseStoreMiddleware": 585,
    # Right after decompression (590): nothing else may see what shall not be kept.
    "carscraper.responses.leave_out.LeaveOutMiddleware": 587,
    # In Scrapy's place: one that cannot be unpacked is retried instead of dropped.
    "scrapy.downloadermiddlewares.httpcompression.HttpCompressionMiddleware": None,
    "scrapy_durable.responses.decompression.DecompressionMiddleware": 590,
    # Nearest to the downloader: nothing that another middleware makes gets past it.
    "scrapy_durable.allow_list.AllowListMiddleware": 990,
    # Not needed, and it costs a call per request: requests set what it would set.
    "scrapy.downloadermiddlewares.httpauth.HttpAuthMiddleware": None,
}

SPIDER_MIDDLEWARES = {
    "scrapy_durable.retry.middleware.NoAnswerMiddleware": 100,
    # Not needed, and each is a layer around every record: no URL is long, depth says nothing about a flat
    # catalogue, one start request needs no mark, and no request copies another's meta.
    "scrapy.spidermiddlewares.urllength.UrlLengthMiddleware": None,
    "scrapy.spidermiddlewares.depth.DepthMiddleware": None,
    "scrapy.spidermiddlewares.start.StartSpiderMiddleware": None,
    "scrapy.spidermiddlewares.metacopy.MetaCopyDetectionMiddleware": None,
}

ITEM_PIPELINES = {
    # After every check of a record: it drops the ledger's items, which are no cars, after keeping them.
    "carscraper.pipelines.item_log.ItemLogPipeline": 900,
    # After it, since a record that JSON cannot hold goes nowhere. Each is off unless its address is set.
    "carscraper.pipelines.databases.MongoPipeline": 910,
    "carscraper.pipelines.databases.PostgresPipeline": 920,
    # After every store: stores take the newer record of a car, feeds can only take the first. It counts them, too.
    "carscraper.pipelines.once.OncePipeline": 950,
}

EXTENSIONS = {
    "scrapy_durable.console.ConsoleLog": 0,
    "carscraper.monitoring.progress.Progress": 100,
    "carscraper.monitoring.completeness.Completeness": 200,
    "carscraper.monitoring.history.CarsHistory": 210,
    "scrapy_durable.metrics.extension.Metrics": 220,
    "carscraper.monitoring.drift.Drift": 300,
    "carscraper.monitoring.schema_contract.SchemaContract": 310,
    "scrapy_durable.responses.retention.Retention": 350,
    # In Scrapy's place: the target is the site's load from all workers, not each one's.
    "scrapy_durable.throttle.extension.Throttle": 400,
    "scrapy.extensions.throttle.AutoThrottle": None,
    # In Scrapy's place: each listing once, whatever is killed, and a feed that fails is no success.
    "carscraper.export.feeds.Feeds": 500,
    "scrapy.extensions.feedexport.FeedExporter": None,
    "scrapy.extensions.logstats.LogStats": None,  # progress says it
    "scrapy.extensions.spiderstate.SpiderState": None,  # writes a pickle to JOBDIR that nothing here reads
}

# Scrapy's list without an error of a download handler that is not used here: to know it, Scrapy would load the
# handler, which takes a tenth of a crawl's start.
RETRY_EXCEPTIONS = [
    error
    for error in default_settings.RETRY_EXCEPTIONS
    if error != "scrapy.core.downloader.handlers.http11.TunnelError"
]

# Scrapy looks for `return` with a value in callbacks that are generators, and reads their source anew when none was at
# work. mypy looks for that here.
WARN_ON_GENERATOR_RETURN_VALUE = False

# Scrapy's lists without what is off here: Scrapy loads it all the same, even when it is `None` above, and it takes a
# tenth of a crawl's start.
_not_loaded = {
    "scrapy.downloadermiddlewares.cookies.CookiesMiddleware",
    "scrapy.extensions.remote_control.RemoteControl",
    "scrapy.extensions.telnet.TelnetConsole",
}
DOWNLOADER_MIDDLEWARES_BASE = {
    name: place
    for name, place in default_settings.DOWNLOADER_MIDDLEWARES_BASE.items()
    if name not in _not_loaded
}
EXTENSIONS_BASE = {
    name: place for name, place in default_settings.EXTENSIONS_BASE.items() if name not in _not_loaded
}

FEED_EXPORTERS = {
    # In Scrapy's place, whose cells hold nested data and run as formulas.
    "csv": "carscraper.export.exporters.CsvExporter",
    "parquet": "carscraper.export.exporters.ParquetExporter",
    # In Scrapy's place, which writes characters and names that XML does not have.
    "xml": "carscraper.export.exporters.XmlExporter",
}

# Logs

LOG_LEVEL = os.environ.get("LOG_LEVEL", "INFO")
STATS_DUMP = True
FEED_EXPORT_ENCODING = "utf-8"
