"""Every metric is documented, and the alerts and the dashboard name none that is not there."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest

from scrapy_durable.metrics.names import METRICS
from tests.standin import ROOT

DEPLOY = ROOT / "deploy"
RULES = DEPLOY / "prometheus" / "rules.yml"
DASHBOARD = DEPLOY / "grafana" / "dashboard.json"
_ROW = re.compile(r"^\| `(scrapy_durable_[a-z_]+)` \| (gauge|counter) \| ([^|]+) \| ([^|]+) \|", re.MULTILINE)
_NAME = re.compile(r"\b(?:scrapy_durable|process)_[a-z_]+")


def kind(name: str) -> str:
    return "counter" if name.endswith("_total") else "gauge"


def names_in(text: str) -> set[str]:
    return set(_NAME.findall(text))


def known() -> set[str]:
    documented = (ROOT / "docs" / "metrics.md").read_text()
    return {metric.name for metric in METRICS} | {
        name for name in names_in(documented) if name.startswith("process_")
    }


def promtool(*arguments: str | Path) -> str:
    done = subprocess.run(["promtool", *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_every_metric_is_documented_and_no_other() -> None:
    documented = {
        (name, kind, tuple(re.findall("`([a-z]+)`", labels)))
        for name, kind, labels, _ in _ROW.findall((ROOT / "docs" / "metrics.md").read_text())
    }
    assert documented == {(metric.name, kind(metric.name), metric.labels) for metric in METRICS}
    assert len(METRICS) == len({metric.name for metric in METRICS}) > 30


def test_the_rules_and_the_dashboard_are_about_metrics_that_are_there() -> None:
    rules = "\n".join(
        line for line in RULES.read_text().splitlines() if not line.startswith(("#", "  - name:"))
    )
    for text in (rules, DASHBOARD.read_text()):
        assert names_in(text)
        assert names_in(text) <= known()
    assert not names_in("rate(scrapy_durable_invented_total[5m])") <= known(), "the counterpart"


def test_the_dashboard_is_one_that_grafana_can_import() -> None:
    dashboard = json.loads(DASHBOARD.read_bytes())
    assert {"title", "uid", "schemaVersion", "panels", "templating"} <= dashboard.keys()
    panels = dashboard["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels) > 10
    cells = set()
    for panel in panels:
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24
        own = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & own, panel["title"]
        cells |= own
        assert panel["targets"]


@pytest.fixture(scope="module")
def expressions() -> list[str]:
    """Those of the dashboard, as Grafana would send them."""
    return [
        target["expr"].replace("$__rate_interval", "1m")
        for panel in json.loads(DASHBOARD.read_bytes())["panels"]
        for target in panel["targets"]
    ]


def test_prometheus_understands_every_expression_of_the_dashboard(
    expressions: list[str], tmp_path: Path
) -> None:
    rules = [{"record": f"panel:{number}", "expr": text} for number, text in enumerate(expressions)]
    (file := tmp_path / "rules.yml").write_text(json.dumps({"groups": [{"name": "panels", "rules": rules}]}))
    assert f"{len(expressions)} rules found" in promtool("check", "rules", file)


def test_the_rules_and_the_example_are_valid_and_their_tests_pass() -> None:
    assert "SUCCESS" in promtool("check", "config", RULES.with_name("prometheus.yml"))
    assert "SUCCESS" in promtool("test", "rules", RULES.with_name("rules_test.yml"))


def test_each_alert_says_where_it_is_told_what_to_do() -> None:
    alerts = re.findall(r"- alert: (\w+)", RULES.read_text())
    pages = re.findall(r"runbook: docs/operating.md#([a-z-]+)$", RULES.read_text(), re.MULTILINE)
    operating = (ROOT / "docs" / "operating.md").read_text()
    headings = {
        re.sub("[^a-z -]", "", heading.lower()).replace(" ", "-"): body
        for heading, body in re.findall(r"^###? (.+)\n((?:(?!#).*\n?)*)", operating, re.MULTILINE)
    }
    assert len(alerts) == len(pages) == len(set(pages)) > 5
    for alert, page in zip(alerts, pages, strict=True):
        assert f"`{alert}`" in headings[page]
