"""An item whose class has bytes ready is kept with them as they are, and comes back without anybody reading them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Self

import orjson
import pytest
import scrapy

from carscraper.items import Car, Specification
from carscraper.spiders.cars import CarsSpider
from scrapy_durable.exceptions import CodecError
from scrapy_durable.item_log import ItemCodec


class ShopSpider(scrapy.Spider):
    name = "shop"


@dataclass
class Picture:
    name: Any
    pixels: bytes

    def log_parts(self) -> tuple[dict[str, Any], bytes] | None:
        return {"name": self.name}, self.pixels

    @classmethod
    def from_log_parts(cls, fields: dict[str, Any], rest: bytes) -> Self:
        return cls(pixels=rest, **fields)


class OtherPicture(Picture):
    pass


CODEC, CARS = ItemCodec(ShopSpider), ItemCodec(CarsSpider)
GROUPS = [{"title": "Engine", "attrs": [{"label": "Power", "value": "55 kW"}]}]


@pytest.mark.parametrize(
    "item",
    [
        Picture("a\nb", b"\n\x00\xff"),
        Picture("", b""),
        OtherPicture("a", b"b"),
        Picture(datetime(2024, 1, 2, tzinfo=UTC), b"kept as any other item is"),
        Picture(2**70, b""),
        Picture("half \ud800", b""),
    ],
    ids=str,
)
def test_it_comes_back_as_it_was(item: Picture) -> None:
    back = CODEC.decode(CODEC.encode(item))
    assert type(back) is type(item)
    assert back == item


def test_bytes_that_are_ready_stand_in_the_log_as_they_are() -> None:
    encoded = CODEC.encode(Picture("a", b"{any bytes"))
    assert encoded.startswith(b"P")
    assert encoded.endswith(b"\n{any bytes")


@pytest.mark.parametrize(
    "data", [b"P", b"P[]\n", b'P["tests.item_log.test_parts:ShopSpider",{}]\n', b'P["no:where",{}]\n']
)
def test_what_nobody_has_encoded_is_refused(data: bytes) -> None:
    with pytest.raises(CodecError):
        CODEC.decode(data)


@pytest.mark.parametrize(
    "specs",
    [GROUPS, [], None, Specification(GROUPS), Specification([])],
    ids=["groups", "none", "null", "shared", "shared-none"],
)
def test_a_car_keeps_its_specification(specs: Any) -> None:
    car = Car("1", "https://cars.example/1", "2026-11-20T10:15:00.123Z", {"price": 1.5, "tags": ["ü"]}, specs)
    back = CARS.decode(CARS.encode(car))
    assert back.specs_json == car.specs_json
    assert back == car


def test_the_specification_of_a_car_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    car = Car("1", "", "", {"price": 1}, Specification(GROUPS))
    loaded: list[bytes] = []
    monkeypatch.setattr(Specification, "groups", property(lambda self: loaded.append(self.json)))
    back = CARS.decode(CARS.encode(car))
    assert back.specs_json == orjson.dumps(GROUPS)
    assert not loaded


def test_what_a_pipeline_has_changed_in_a_car_is_kept() -> None:
    car = Car("1", "", "", {"seen": datetime(2024, 1, 2, tzinfo=UTC)}, Specification(GROUPS))
    assert car.car_specs is not None
    car.car_specs.append({"title": "Own", "attrs": []})
    back = CARS.decode(CARS.encode(car))
    assert (back.car_attrs, back.car_specs) == (car.car_attrs, car.car_specs)
