"""Charts as numbers: price over age and over mileage, for uPlot and for the tables beside it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import median
from typing import TypedDict

from carscraper.dashboard.catalogue import Catalogue

MOST_POINTS = 1_500
"""Drawn in one chart."""
MILEAGE_STEP = 25_000
"""Kilometres of mileage that one median is of."""
OUTLYING = 3
"""What costs more than so many times the price that 19 of 20 stay below is not drawn, and likewise what is older or has
driven further: one listing must not flatten all others.
"""
FEWEST_STEPS, MOST_STEPS = 10, 60
"""That are drawn whatever the listings are, and at most."""


class Step(TypedDict):
    """A row of the table: listings from `x` up to the next step, and what they cost."""

    x: int
    median: int
    listings: int


class Chart(TypedDict):
    """One chart: `x` ascending, and for each a price, a median or neither."""

    x: list[int]
    price: list[int | None]
    median: list[int | None]
    steps: list[Step]
    listings: int
    """That have both numbers."""
    drawn: int
    """Of them; the others are passed over evenly."""
    outlying: int
    """Not drawn, nor in the medians, since they are far from all others."""


def price_over_age(catalogue: Catalogue, make: str, model: str) -> Chart:
    """Age in years, from the model year to that of the catalogue; one of the next year counts as 0."""
    this_year = catalogue.published.year
    return _chart(
        ((max(0, this_year - year), price) for year, _, price in catalogue.of_model(make, model) if year), 1
    )


def price_over_mileage(catalogue: Catalogue, make: str, model: str) -> Chart:
    """Mileage in km."""
    cars = catalogue.of_model(make, model)
    return _chart(((mileage, price) for _, mileage, price in cars if mileage is not None), MILEAGE_STEP)


def _chart(cars: Iterable[tuple[int, int]], step: int) -> Chart:
    found = sorted(cars)
    farthest = min(max(_bound(x for x, _ in found), FEWEST_STEPS * step), MOST_STEPS * step)
    dearest = _bound(price for _, price in found)
    within = [car for car in found if car[0] < farthest and car[1] <= dearest]
    by_step: dict[int, list[int]] = {}
    for x, price in within:
        by_step.setdefault(x // step * step, []).append(price)
    steps = [Step(x=x, median=round(median(prices)), listings=len(prices)) for x, prices in by_step.items()]
    drawn = _evenly(within)
    middles = [(at["x"] + step // 2, at["median"]) for at in steps]
    points = sorted(
        [(x, price, None) for x, price in drawn] + [(x, None, price) for x, price in middles], key=_x
    )
    return Chart(
        x=[x for x, _, _ in points],
        price=[price for _, price, _ in points],
        median=[price for _, _, price in points],
        steps=steps,
        listings=len(found),
        drawn=len(drawn),
        outlying=len(found) - len(within),
    )


def _x(point: tuple[int, int | None, int | None]) -> int:
    return point[0]


def _bound(numbers: Iterable[int]) -> int:
    ordered = sorted(numbers)
    return OUTLYING * ordered[len(ordered) * 19 // 20] if ordered else 0


def _evenly(cars: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """At most `MOST_POINTS` of them, the first and the last included."""
    number = min(len(cars), MOST_POINTS)
    if number < 2:
        return list(cars[:number])
    return [cars[place * (len(cars) - 1) // (number - 1)] for place in range(number)]
