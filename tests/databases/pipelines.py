"""Item pipelines as others may have them, for `-s ITEM_PIPELINES=…`."""

from __future__ import annotations

import os
from typing import Any

from carscraper.items import Car


class Rearranging:
    """Makes something else of the specification of the cars that `REARRANGED` names."""

    def __init__(self) -> None:
        self._ids = set(os.environ["REARRANGED"].split(","))

    def process_item(self, item: Any) -> Any:
        if isinstance(item, Car) and item.id in self._ids:
            item.car_specs = 4
        return item
