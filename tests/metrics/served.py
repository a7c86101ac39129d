"""Metrics as somebody outside gets them: by HTTP, and by `scrapy queue metrics`, a process that runs beside a crawl."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import urlopen

from prometheus_client.parser import text_string_to_metric_families

from tests.crawling import HANGS, wait_until
from tests.standin import ROOT

_ADDRESS = re.compile(r"http://127[.]0[.]0[.]1:[0-9]+(?=/metrics)")
Samples = dict[str, float]
"""By name and labels, as they are written."""


def address_in(text: str) -> str | None:
    """Of what serves metrics, as it has said it; without the path."""
    found = _ADDRESS.search(text)
    return found[0] if found else None


def get(address: str) -> tuple[int, bytes]:
    """Status and body of an answer."""
    try:
        with urlopen(address, timeout=HANGS) as answer:
            return answer.status, answer.read()
    except HTTPError as refused:
        with refused:
            return refused.code, refused.read()


def metrics_text(address: str) -> str:
    status, body = get(f"{address}/metrics")
    assert status == 200, body
    return body.decode()


def samples_in(text: str) -> Samples:
    """The samples of an exposition."""
    found = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            labels = ",".join(f"{name}={json.dumps(value)}" for name, value in sample.labels.items())
            found[f"{sample.name}{{{labels}}}" if labels else sample.name] = sample.value
    return found


def scrape(address: str) -> Samples:
    return samples_in(metrics_text(address))


def health(address: str) -> tuple[int, Any]:
    status, body = get(f"{address}/healthcheck?complete")
    return status, json.loads(body)


def queue_metrics(settings: Mapping[str, object], *options: str) -> list[str]:
    """The command."""
    told = [word for name, value in settings.items() for word in ("-s", f"{name}={value}")]
    return [sys.executable, "-m", "scrapy", "queue", "metrics", *options, *told]


def environment() -> dict[str, str]:
    ours = ("JOBDIR", "REDIS_URL", "DURABLE_", "CARS_")
    return {name: value for name, value in os.environ.items() if not name.startswith(ours)}


class Exporter:
    """`scrapy queue metrics` on a free port while the `with` block runs."""

    def __init__(self, settings: Mapping[str, object], log: Path) -> None:
        self._log = log
        with log.open("wb") as file:
            self.process = subprocess.Popen(
                queue_metrics(settings, "--port", "0"), cwd=ROOT, env=environment(), stdout=file, stderr=file
            )

    def __enter__(self) -> str:
        """Where it serves."""
        wait_until(
            lambda: address_in(self._log.read_text()) or self.process.poll() is not None, what="its address"
        )
        address = address_in(self._log.read_text())
        assert address is not None, self._log.read_text()
        return address

    def __exit__(self, *exception: object) -> None:
        self.process.terminate()
        assert self.process.wait(HANGS) == 0, self._log.read_text()
