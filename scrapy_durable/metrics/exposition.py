"""Metrics in Prometheus' text format; needs `prometheus_client`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

from scrapy_durable.metrics.names import METRICS

if TYPE_CHECKING:
    from prometheus_client.core import Metric as Family

    from scrapy_durable.metrics.values import Values

CONTENT_TYPE = CONTENT_TYPE_LATEST


class _Families:
    def __init__(self, values: Values) -> None:
        self._values = values

    def collect(self) -> Iterator[Family]:
        for metric in METRICS:
            samples = self._values.get(metric)
            if samples is None:
                continue
            kind = CounterMetricFamily if metric.name.endswith("_total") else GaugeMetricFamily
            family = kind(metric.name, metric.help, labels=metric.labels)
            for labels, value in samples.items():
                family.add_metric(labels, value)
            yield family


def exposition(all_values: Iterable[Values], *, process: bool) -> bytes:
    """As a scrape gets it; `process`: with memory, CPU time and files of this process."""
    registry = CollectorRegistry()
    merged: Values = {}
    for values in all_values:
        merged |= values
    registry.register(_Families(merged))
    if process:
        ProcessCollector(registry=registry)
    return generate_latest(registry)
