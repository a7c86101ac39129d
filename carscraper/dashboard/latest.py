"""What the files of an output directory hold now, read again when they have changed."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from carscraper.changes.log import CHANGES_JSONL
from carscraper.dashboard.catalogue import Catalogue, read_catalogue
from carscraper.dashboard.week import Week, last_week
from carscraper.output.cars_json import CARS_JSON
from scrapy_durable.exceptions import cause

AGAIN = timedelta(hours=1)
"""After that long the week is another one, although the files are the same."""

_Signature = tuple[int, int, int] | None


@dataclass(frozen=True, slots=True)
class Shown:
    """What there is to show; a problem is a sentence about one file, empty where there is none."""

    catalogue: Catalogue | None = None
    """None: nothing that can be read was published yet. With a problem, the last that could be read."""
    catalogue_problem: str = ""
    week: Week | None = None
    """None: no changes were written yet."""
    week_problem: str = ""


class Latest:
    """Reads `cars.json` once for each time that it is published. For one thread at a time."""

    def __init__(self, output_dir: Path) -> None:
        self._cars, self._changes = output_dir / CARS_JSON, output_dir / CHANGES_JSONL
        self._read_at: datetime | None = None
        self._signatures: tuple[_Signature, _Signature] = (None, None)
        self._shown = Shown()

    def shown(self, now: datetime) -> Shown:
        """What there is at this moment. Takes seconds when a large catalogue is new, and raises nothing."""
        signatures = _signature(self._cars), _signature(self._changes)
        is_old = self._read_at is None or not timedelta(0) <= now - self._read_at < AGAIN
        if is_old or signatures != self._signatures:
            week, week_problem = self._week(now)
            catalogue, problem = self._catalogue(week)
            self._shown = Shown(catalogue, problem, week, week_problem)
            self._signatures, self._read_at = signatures, now
        return self._shown

    def _week(self, now: datetime) -> tuple[Week | None, str]:
        try:
            return last_week(self._changes, now), ""
        except FileNotFoundError:
            return None, ""
        except OSError as error:
            return None, f"{CHANGES_JSONL} cannot be read: {cause(error)}"

    def _catalogue(self, week: Week | None) -> tuple[Catalogue | None, str]:
        try:
            return read_catalogue(self._cars, week.listings if week else ()), ""
        except FileNotFoundError:
            return None, ""
        except OSError as error:
            return self._shown.catalogue, f"{CARS_JSON} cannot be read: {cause(error)}"
        except (ValueError, AttributeError) as error:
            return self._shown.catalogue, f"{CARS_JSON} is damaged: {error}"


def _signature(path: Path) -> _Signature:
    """Of one version of a file; None where it cannot be looked at."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size
