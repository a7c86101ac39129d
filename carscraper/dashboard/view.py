"""What the template of the page about cars is given: texts and shares, in their order."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, NamedTuple

from carscraper.api.columns import COLUMNS
from carscraper.dashboard.catalogue import Catalogue, shown_name
from carscraper.dashboard.charts import MILEAGE_STEP, price_over_age, price_over_mileage
from carscraper.dashboard.latest import Shown
from carscraper.dashboard.week import DAYS, Week

MOST_ROWS = 200
"""Makes, models and provinces that are listed; of the others, only how many they are."""
FIRST_ROWS = 12
"""That are seen before somebody asks for more."""


class Bar(NamedTuple):
    """A row of a table with a bar in it."""

    name: str
    listings: int
    share: float
    """Of all listings, in percent."""
    width: float
    """Of the longest bar, in percent."""


class Chosen(NamedTuple):
    """Which model the charts are of."""

    make: str
    model: str
    is_known: bool


def view(shown: Shown, make: str, model: str, of: str, now: datetime) -> dict[str, Any]:
    """What there is to show of a model; of the most frequent one where none is named, or where it is that of another
    make, `of`.
    """
    catalogue, week = shown.catalogue, shown.week
    context: dict[str, Any] = {
        "problems": [text for text in (shown.catalogue_problem, shown.week_problem) if text],
        "catalogue": catalogue,
        "week": week,
        "days": DAYS,
        "now": now,
    }
    if catalogue is not None:
        context |= _of_catalogue(catalogue, _chosen(catalogue, make, "" if of and of != make else model))
    if week is not None:
        context |= _of_week(week)
    return context


def _chosen(catalogue: Catalogue, make: str, model: str) -> Chosen:
    make = shown_name(make) or max(catalogue.makes, key=catalogue.makes.__getitem__, default="")
    counts = catalogue.counts(make)
    model = shown_name(model) or max(counts, key=counts.__getitem__, default="")
    return Chosen(make, model, model in counts)


def _of_catalogue(catalogue: Catalogue, chosen: Chosen) -> dict[str, Any]:
    counts = catalogue.counts(chosen.make)
    charts = {
        "age": price_over_age(catalogue, chosen.make, chosen.model),
        "mileage": price_over_mileage(catalogue, chosen.make, chosen.model),
    }
    return {
        "chosen": chosen,
        "charts": charts,
        "mileage_step": MILEAGE_STEP,
        "all_makes": sorted(catalogue.makes, key=str.casefold)[: 10 * MOST_ROWS],
        "models": bars(counts, catalogue.listings),
        "makes": bars(catalogue.makes, catalogue.listings),
        "provinces": bars(catalogue.provinces, catalogue.listings),
        "first_rows": FIRST_ROWS,
        "more_makes": max(0, len(catalogue.makes) - MOST_ROWS),
        "filled": [
            Bar(name, count, _percent(count, catalogue.listings), _percent(count, catalogue.listings))
            for name, count in zip(COLUMNS, catalogue.filled, strict=True)
        ],
    }


def _of_week(week: Week) -> dict[str, Any]:
    return {"moves": {"Largest drops": week.drops, "Largest rises": week.rises}}


def bars(counts: Mapping[str, int], total: int) -> list[Bar]:
    """The most frequent first."""
    found = sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:MOST_ROWS]
    longest = found[0][1] if found else 0
    return [Bar(name, count, _percent(count, total), _percent(count, longest)) for name, count in found]


def _percent(part: int, whole: int) -> float:
    """Rounded down, so that 100 means all."""
    return part * 1000 // whole / 10 if whole else 0.0
