"""An item comes back with its class and its types, or is refused with the place of what cannot be kept."""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import enum
from collections.abc import Iterator
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Any, NamedTuple
from uuid import UUID
from zoneinfo import ZoneInfo

import attrs
import orjson
import pydantic
import pydantic.dataclasses
import pytest
import scrapy
from hypothesis import given
from hypothesis import strategies as st
from itemadapter import ItemAdapter

from scrapy_durable.exceptions import CodecError
from scrapy_durable.frontier.classes import SpiderClasses
from scrapy_durable.item_log import ItemCodec, codec
from tests.item_log import elsewhere, logs


class ShopSpider(scrapy.Spider):
    name = "shop"


CODEC = ItemCodec(ShopSpider)
PLUS_TWO = timezone(timedelta(hours=2))


class Product(scrapy.Item):
    name = scrapy.Field()
    price = scrapy.Field(serializer=str)


class Book(Product):
    author = scrapy.Field()


@dataclasses.dataclass
class Offer:
    sku: Any
    price: Any = dataclasses.field(default=None, metadata={"serializer": str})
    made: list[str] = dataclasses.field(default_factory=list)

    def __post_init__(self) -> None:
        self.made.append("made")


@attrs.define
class Shop:
    name: Any
    at: Any = None


class Model(pydantic.BaseModel):
    name: str
    price: Any = None


class Open(Model, extra="allow"):
    parts: list[Model] = []


class Counted(pydantic.BaseModel):
    name: str
    _count: int = 1


@pydantic.dataclasses.dataclass
class Checked:
    name: str


class Size(NamedTuple):
    width: int
    height: Any


class Colour(enum.Enum):
    RED = "red"


class Text(str):
    __slots__ = ()


def back(item: Any) -> Any:
    return CODEC.decode(CODEC.encode(item))


def known(value: Any) -> Any:
    """Whatever can be told of a value: its class, that of all in it, and NaN as equal to itself."""
    kind = type(value)
    if kind is dict:
        return kind, [(known(key), known(inner)) for key, inner in value.items()]
    if isinstance(value, list | tuple):
        return kind, [known(inner) for inner in value]
    if kind in (set, frozenset):
        return kind, sorted(repr(known(inner)) for inner in value)
    if ItemAdapter.is_item(value):
        return kind, known(dict(ItemAdapter(value)))
    return kind, repr(value)


PLAIN = {"name": "Ä", "price": 1.5, "stock": 3, "sold": False, "note": None, "tags": ["a", {"b": []}], "$": 1}


@pytest.mark.parametrize(
    "item",
    [
        PLAIN,
        {"$": ["tuple", [1]]},
        {"big": 2**70, "low": -(2**63) - 1, "highest": 2**64 - 1},
        {"nan": float("nan"), "inf": float("-inf"), "zero": -0.0},
        {
            "price": Decimal("1.10"),
            "at": datetime(2024, 1, 2, 3, 4, 5, 6, tzinfo=UTC),
            "day": date(2024, 1, 2),
        },
        {"at": datetime(2024, 1, 2, tzinfo=PLUS_TWO), "clock": time(3, 4), "took": timedelta(days=-1)},
        {"size": (1, (2,)), "set": {1, "a"}, "frozen": frozenset((1,)), "raw": b"\xff\x00"},
        {1: "a", ("b", 2): None},
        {"id": UUID(int=1)},
        Offer(UUID(int=2**127)),
        {"half": "\ud800 and \udc00"},
        {"size": Size(1, {2}), "colour": Colour.RED},
        Product(name="a", price=1),
        Product(),
        Product(name="half \ud800", price=2**70),
        Offer(2**70),
        Book(name="a", author=Product(name="b")),
        Product(name={"$": ["tuple", [1]]}),
        Offer("a", Decimal(1)),
        Offer({"$": 1}, [Offer(1)]),
        Shop("a", datetime(2024, 1, 1)),
        Shop("a"),
        elsewhere.Enriched("a"),
        Model(name="a"),
        Model(name="a", price=Decimal(1)),
        Open(name="a", parts=[Model(name="b", price=(1,))], more={1}),
        Checked(name="a"),
        "a string",
        [1, 2],
        None,
    ],
)
def test_an_item_comes_back_as_it_was(item: Any) -> None:
    assert known(back(item)) == known(item)


def test_most_items_are_plain_json() -> None:
    assert orjson.loads(CODEC.encode(PLAIN)) == PLAIN


@pytest.mark.parametrize("item", [Product(name="a"), Offer("a"), Shop("a")], ids=repr)
def test_fields_of_a_class_are_plain_json(item: Any) -> None:
    data = CODEC.encode(item)
    assert orjson.loads(data[1:])[2] == dict(ItemAdapter(item))


@pytest.mark.parametrize(
    ("item", "kept"),
    [
        ({"a": Text("x"), Text("b"): 1}, {"a": "x", "b": 1}),
        (collections.OrderedDict(a=1), {"a": 1}),
        (collections.defaultdict(list, a=[1]), {"a": [1]}),
        ({"a": [collections.Counter("b")]}, {"a": [{"b": 1}]}),
        (
            {"at": datetime(2024, 7, 1, tzinfo=ZoneInfo("Europe/Berlin"))},
            {"at": datetime(2024, 7, 1, tzinfo=PLUS_TWO)},
        ),
        (Product(name=collections.deque((1,), 5)), None),
    ],
)
def test_what_exporters_cannot_tell_from_something_simpler_comes_back_as_that(item: Any, kept: Any) -> None:
    if kept is None:
        with pytest.raises(CodecError, match=r"Product\.name: JSON has no deque"):
            CODEC.encode(item)
    else:
        assert known(back(item)) == known(kept)


def local() -> Any:
    @dataclasses.dataclass
    class Local:
        a: int

    return Local(1)


def recursive() -> Any:
    item: dict[str, Any] = {}
    item["self"] = [item]
    return item


@pytest.mark.parametrize(
    ("item", "reason"),
    [
        ({"a": [{"b": open}]}, r"dict\.a\[0\]\.b: JSON has no builtin_function_or_method"),
        (Product(name=lambda: 1), r"Product\.name: JSON has no function"),
        (Offer(object()), r"Offer\.sku: JSON has no object"),
        (local(), r"Local: the class .* is not found by this name again|there is no class"),
        (Counted(name="a"), r"Counted: a Counted with attributes beside its fields"),
        (recursive(), "nested too deeply"),
        ({"pair": "\ud83d\ude00"}, "dict: a string that JSON does not have"),
        ({"at": time(1, tzinfo=ZoneInfo("Europe/Berlin"))}, r"dict\.at: a time in a zone"),
    ],
)
def test_what_cannot_be_kept_is_refused_by_its_place(item: Any, reason: str) -> None:
    with pytest.raises(CodecError, match=reason):
        CODEC.encode(item)


class Failing(scrapy.Item):
    name = scrapy.Field()

    def __getitem__(self, key: str) -> Any:
        raise ValueError("no such thing")


def test_an_item_that_fails_when_it_is_looked_at_is_refused() -> None:
    with pytest.raises(CodecError, match="Failing: no such thing"):
        CODEC.encode(Failing(name="a"))


def test_an_item_that_is_too_long_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """A record has no room for a length of more than 32 bits."""
    assert codec.LONGEST < 2**32
    monkeypatch.setattr(codec, "LONGEST", 10)
    with pytest.raises(CodecError, match="dict: 11 bytes, more than 10"):
        CODEC.encode({"a": "123"})


def test_a_model_is_made_as_a_copy_is() -> None:
    """Nothing is validated again, and what was set is known."""
    model = Model.model_construct(name=5)
    for item in (model, Model(name="a", price=None), Open(name="a", more=1)):
        assert back(item) == item
        assert back(item).model_fields_set == item.model_fields_set


def test_an_item_is_made_without_its_init() -> None:
    assert back(Offer("a")).made == ["made"]


def test_a_class_is_found_in_any_module_of_the_project() -> None:
    """The spider does not import it, so a request may not name it."""
    made = logs.CODEC.decode(logs.CODEC.encode(elsewhere.Enriched("a")))
    assert type(made) is elsewhere.Enriched
    with pytest.raises(CodecError):
        SpiderClasses(logs.ShopSpider).name_of(elsewhere.Enriched)


def test_a_class_that_is_gone_is_named() -> None:
    data = CODEC.encode(Offer("a")).replace(b":Offer", b":Other")
    with pytest.raises(CodecError, match=r"there is no class .*test_codec:Other"):
        CODEC.decode(data)


@pytest.mark.parametrize(
    "data", [b"", b"T", b"O[]", b'O["Item","a:b",{}]', b"S{", b"X", b'T{"$":["dict",5]}']
)
def test_what_is_no_item_is_refused(data: bytes) -> None:
    with pytest.raises(CodecError):
        CODEC.decode(data)


TEXTS = st.text() | st.text(st.characters(categories=["Cs", "Lu"]), max_size=3)
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | TEXTS
    | st.binary(max_size=5)
    | st.decimals()
    | st.dates()
    | st.datetimes(timezones=st.sampled_from([None, UTC, PLUS_TWO])).map(lambda at: at.replace(fold=0))
    | st.timedeltas()
    | st.just(Colour.RED)
)


def collections_of(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    keys = st.text(max_size=3) | st.sampled_from(["$", 1, (1, "a"), None])
    return (
        st.lists(values, max_size=3)
        | st.lists(values, max_size=3).map(tuple)
        | st.dictionaries(keys, values, max_size=4)
        | st.builds(Product, name=values, price=values)
        | st.builds(Offer, values, values)
        | st.builds(Shop, values)
        | st.sets(st.integers() | st.text(max_size=2), max_size=3)
    )


def texts_in(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif ItemAdapter.is_item(value):
        yield from texts_in(list(ItemAdapter(value).items()))
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from texts_in(inner)


@given(st.dictionaries(st.text(max_size=3), st.recursive(SCALARS, collections_of, max_leaves=8), max_size=4))
def test_any_item_comes_back_as_it_was(item: dict[str, Any]) -> None:
    with contextlib.suppress(CodecError):
        assert known(back(item)) == known(item)
        return
    assert any("\udc00" <= char <= "\udfff" for text in texts_in(item) for char in text)


@given(st.binary(max_size=30))
def test_no_bytes_do_anything_but_make_an_item_or_an_error(data: bytes) -> None:
    with contextlib.suppress(CodecError):
        CODEC.decode(data)


def test_a_class_is_looked_for_once_however_many_items_it_has(monkeypatch: pytest.MonkeyPatch) -> None:
    classes, looked = SpiderClasses(logs.ShopSpider), []
    find = classes.find
    monkeypatch.setattr(classes, "find", lambda name: (looked.append(name), find(name))[1])
    names = {classes.name_of(logs.ShopSpider) for _ in range(3)}
    assert names == set(looked)
    assert len(looked) == 1
    for _ in range(2):  # it may be found later
        with pytest.raises(CodecError):
            classes.name_of(elsewhere.Enriched)
    assert len(looked) == 3
