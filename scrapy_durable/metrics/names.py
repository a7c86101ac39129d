"""Every metric that there is: its name by Prometheus' conventions, what it means, its labels."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Metric:
    """A family of samples; a name that ends in `_total` is a counter's, all others are gauges."""

    name: str
    help: str
    labels: tuple[str, ...] = ()


FRONTIER_UP = Metric("scrapy_durable_frontier_up", "1 when the frontier answered this look, else 0.")
LOOK_SECONDS = Metric("scrapy_durable_look_seconds", "Seconds that the last look at the frontier took.")
CRAWL_STATE = Metric(
    "scrapy_durable_crawl_state", "1 for the state that the crawl is in, else 0.", ("state",)
)
REQUESTS = Metric("scrapy_durable_requests", "Requests of the crawl by their state.", ("state",))
SLOT_REQUESTS = Metric("scrapy_durable_slot_requests", "Requests by site and state.", ("slot", "state"))
CALLBACK_REQUESTS = Metric(
    "scrapy_durable_callback_requests", "Requests by callback and state.", ("callback", "state")
)
OLDEST = Metric(
    "scrapy_durable_oldest_request_age_seconds",
    "Age of the request that has waited longest; 0 when none does.",
)
SLOT_IN_FLIGHT = Metric("scrapy_durable_slot_in_flight", "Requests in flight by site.", ("slot",))
SLOT_CAP = Metric(
    "scrapy_durable_slot_cap",
    "Most requests in flight of a site, while it is known; 0 for no limit.",
    ("slot",),
)
SLOT_INTERVAL = Metric(
    "scrapy_durable_slot_interval_seconds", "Seconds between two requests of a site, while known.", ("slot",)
)
SLOTS_WAITING = Metric(
    "scrapy_durable_slots_waiting", "Sites that have something due and are not asked, by why.", ("why",)
)
REQUESTS_DONE = Metric("scrapy_durable_requests_done_total", "Requests acknowledged since the crawl began.")
ANSWERS = Metric("scrapy_durable_answers_total", "Answers of any status, of all workers.")
LATENCY = Metric(
    "scrapy_durable_answer_latency_seconds_total", "Seconds that all answers together took to come."
)
FAILURES = Metric(
    "scrapy_durable_failures_total", "Downloads that brought no answer, or a status from 400 on."
)
BYTES = Metric("scrapy_durable_answer_bytes_total", "Bytes of the bodies of all answers.")
ITEMS = Metric("scrapy_durable_items_total", "Items passed on by all workers.")
RETRIES = Metric("scrapy_durable_retries_total", "Requests queued again, by the kind of reason.", ("reason",))
DEAD_LETTERS = Metric(
    "scrapy_durable_dead_letters_total", "Requests given up, by the kind of reason.", ("reason",)
)
STALE = Metric("scrapy_durable_stale_messages_total", "Messages refused because of an older fencing token.")
KEPT = Metric("scrapy_durable_items_kept", "Items of the crawl so far.")
EXPECTED = Metric("scrapy_durable_items_expected", "Items that there are; absent when no worker was told.")
TIME_LEFT = Metric(
    "scrapy_durable_left_seconds", "Seconds until the crawl is done, at its rates; absent when unknown."
)
WORKERS = Metric(
    "scrapy_durable_workers", "Workers of the crawl that are living, silent, or have left.", ("state",)
)
WORKER_SILENT = Metric(
    "scrapy_durable_worker_silent_seconds",
    "Seconds since a worker that has not left was heard of.",
    ("worker",),
)
WORKER_LEASES = Metric("scrapy_durable_worker_leases", "Leases that a worker holds.", ("worker",))
STORE_BEHIND = Metric(
    "scrapy_durable_store_behind_records", "Records that a database has not got yet.", ("store",)
)
LOG_BYTES = Metric("scrapy_durable_item_log_bytes", "Bytes of items on disks that a feed still needs.")
LOGS_FULL = Metric("scrapy_durable_item_logs_full", "Workers whose item log is full.")
LAST_COMPLETE = Metric(
    "scrapy_durable_last_complete_run_timestamp_seconds",
    "When the last complete run ended, in seconds since the epoch; 0 when there is none.",
)
PROCESS_REQUESTS = Metric("scrapy_durable_process_requests_total", "Requests that this process has sent.")
PROCESS_RESPONSES = Metric(
    "scrapy_durable_process_responses_total", "Answers that this process got, by status.", ("status",)
)
PROCESS_ITEMS = Metric("scrapy_durable_process_items_total", "Items that this process has passed on.")
PROCESS_LOG = Metric(
    "scrapy_durable_process_log_messages_total", "Lines that this process has logged, by level.", ("level",)
)

METRICS: tuple[Metric, ...] = tuple(value for value in list(vars().values()) if isinstance(value, Metric))
