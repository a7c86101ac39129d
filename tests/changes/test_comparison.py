"""The old record of a listing is found, in whatever order the new catalogue has them."""

from __future__ import annotations

from pathlib import Path
from random import Random

import orjson
import pytest

from carscraper.changes import comparison as module
from carscraper.changes.comparison import comparison
from carscraper.changes.lines import Step, head_of


@pytest.mark.parametrize("at_once", [1, 7, 1 << 17])
def test_listings_in_another_order_are_found_however_few_are_sorted_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at_once: int
) -> None:
    monkeypatch.setattr(module, "_SORTED_AT_ONCE", at_once)
    records = {
        str(number): orjson.dumps({"id": str(number), "url": "", "car_attrs": {}, "car_specs": []})
        for number in range(200)
    }
    path = tmp_path / "cars.json"
    path.write_bytes(b"[\n" + b",\n".join(records.values()) + b"\n]\n")
    new = [pair for pair in records.items() if pair[0] not in ("3", "150")]
    Random(1).shuffle(new)
    with comparison(path) as compared:
        compared.read_old(())
        lines = list(compared.lines(Step("run", "2026-11-20T10:15:00Z", compared.before), new, ()))
    heads = [head for line in lines if (head := head_of(line))]
    assert [(head.kind, head.listing) for head in heads] == [("removed", "3"), ("removed", "150")]
    assert len(heads) == len(lines)
