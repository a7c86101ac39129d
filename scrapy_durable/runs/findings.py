"""The monitors of a project, called for a run that ends; one that is broken costs its own findings alone."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scrapy.utils.misc import load_object

from scrapy_durable.exceptions import cause
from scrapy_durable.runs.file import read_runs
from scrapy_durable.runs.monitors import ERROR, WARNING, Finding, Monitor, comparable, core_monitor

if TYPE_CHECKING:
    from scrapy_durable.config import Config
    from scrapy_durable.runs.file import Run

logger = logging.getLogger(__name__)

_MOST, _LONGEST = 50, 300
"""Findings of one monitor, and characters of a text."""


def find(
    run: Run, path: Path, config: Config, own: Iterable[tuple[str, Monitor]] = ()
) -> list[dict[str, Any]]:
    """What all monitors find about a run, the errors first, as `runs.jsonl` has it; `own` are a site's, by name."""
    if not config.monitor_runs:
        return []
    try:
        before = comparable(run, read_runs(path, lambda _: None), config.monitor_runs)
    except OSError as error:
        logger.warning("The run is compared with none: %s", cause(error))
        before = []
    found: list[Finding] = []
    for name, monitor in [("core", core_monitor(config.monitor_bounds)), *own, *_loaded(config.monitors)]:
        found += _called(name, monitor, run, before)
    for finding in found:
        level = logging.ERROR if finding.severity == ERROR else logging.WARNING
        logger.log(level, "Unusual about this run (%s): %s", finding.monitor, finding.sentence)
    return [asdict(one) for one in sorted(found, key=lambda one: one.severity != ERROR)]


def _loaded(paths: Sequence[str]) -> Iterable[tuple[str, Monitor]]:
    for path in paths:
        try:
            monitor = load_object(path)
            if not callable(monitor):
                raise TypeError("a function is needed")  # noqa: TRY301 (one line for all that is wrong with it)
        except Exception as error:  # noqa: BLE001 (a project's module may raise anything)
            _warn(path, error)
        else:
            yield path, monitor


def _called(name: str, monitor: Monitor, run: Run, before: Sequence[Run]) -> list[Finding]:
    """Each gets its own run to write to."""
    found: list[Finding] = []
    try:
        for finding in monitor(dict(run), tuple(before)):
            found.append(_checked(finding))
            if len(found) == _MOST:
                break
    except Exception as error:  # noqa: BLE001 (the same)
        _warn(name, error)
    return found


def _checked(finding: Any) -> Finding:
    """Raises TypeError for anything else."""
    if not isinstance(finding, Finding) or finding.severity not in (ERROR, WARNING):
        raise TypeError(
            f"a Finding with the severity {ERROR!r} or {WARNING!r} is needed, not {finding!r:.100}"
        )
    texts = {name: str(value)[:_LONGEST] for name, value in asdict(finding).items()}
    return Finding(**texts)


def _warn(name: str, error: BaseException) -> None:
    logger.warning("The monitor %s is broken, and left out: %s", name, cause(error))
