"""Values that JSON does not have come back as they were, and those that cannot are refused by their place."""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import datetime
import decimal
import enum
import types
import uuid
import zoneinfo
from typing import Any, NamedTuple

import attrs
import lxml.html
import orjson
import pytest
import scrapy
from hypothesis import given
from hypothesis import strategies as st
from scrapy import Request
from scrapy.http import HtmlResponse

from scrapy_durable.exceptions import CodecError
from scrapy_durable.frontier.codec import decode, encode
from tests.frontier import model

URL = "https://site.test/"
ASSUMED = datetime.timezone(datetime.timedelta(hours=2))


class TextSpider(scrapy.Spider):
    name = "text"


SPIDER = TextSpider()


class Text(str):
    __slots__ = ()


class Product(scrapy.Item):
    name = scrapy.Field()
    parts = scrapy.Field()


class Demanding(scrapy.Item):
    name = scrapy.Field()

    def __init__(self, name: str) -> None:
        super().__init__(name=name)


@dataclasses.dataclass
class Found:
    sku: int
    texts: tuple[str, ...] = ()
    made: list[str] = dataclasses.field(default_factory=list)

    def __post_init__(self) -> None:
        self.made.append("made")


@dataclasses.dataclass(frozen=True, slots=True)
class Frozen:
    a: int


@attrs.define
class Slotted:
    a: int
    b: Any = None


@attrs.frozen(slots=False)
class Plain:
    a: int


class Pair(NamedTuple):
    one: int
    two: Any


class Colour(enum.Enum):
    RED = "red"


class Named(enum.StrEnum):
    RED = "red"


class Level(enum.IntEnum):
    LOW = 1


class Outer:
    @dataclasses.dataclass
    class Inner:
        a: int


def back(value: Any) -> Any:
    return decode(encode(Request(URL, meta={"a": [value]}), SPIDER), SPIDER).meta["a"][0]


@pytest.mark.parametrize(
    "value",
    [
        (1, (2,), []),
        {1, 2},
        frozenset({"a"}),
        b"\xff",
        2**64,
        -(2**63) - 1,
        float("inf"),
        decimal.Decimal("1.10"),
        datetime.datetime(2024, 1, 2, 3, 4, 5, 6),
        datetime.datetime(2024, 1, 2, tzinfo=datetime.UTC),
        datetime.datetime(2024, 1, 2, tzinfo=ASSUMED),
        datetime.date(2024, 1, 2),
        datetime.time(3, 4),
        datetime.timedelta(days=-1, microseconds=1),
        uuid.UUID(int=2**127 + 1),
        {uuid.UUID(int=1): 1},
        {1: "a", ("b", 2): None},
        {"$": 1},
        {"$": ["tuple", [1]], "b": (1,)},
        {"$": (1,)},
        Product(name="a", parts=[Product(name="b")]),
        Product(),
        Demanding("a"),
        Found(1, ("a", "b")),
        Frozen(1),
        Slotted(1, Frozen(2)),
        Plain(1),
        Pair(1, {2}),
        Colour.RED,
        Outer.Inner(1),
    ],
    ids=repr,
)
def test_a_value_comes_back_as_it_was(value: Any) -> None:
    assert back(value) == value
    assert type(back(value)) is type(value)


def test_what_is_no_number_comes_back() -> None:
    assert str(back(float("nan"))) == "nan"


def test_tagged_values_stand_anywhere_in_a_request() -> None:
    request = Request(
        URL,
        meta={"depth": 1, "deep": {"list": [{"item": Product(name="a")}]}},
        cb_kwargs={"item": Found(1), "text": Text("x")},
        cookies=[{"name": b"a", "value": Text("b")}],  # type: ignore[typeddict-item]
        headers={Text("X-A"): Text("b")},
        flags=[Text("f")],
    )
    made = decode(encode(request, SPIDER), SPIDER)
    for field in Request.attributes:
        assert getattr(made, field) == getattr(request, field), field
    assert type(made.cb_kwargs["text"]) is str
    assert type(made.cookies[0]["value"]) is str  # type: ignore[index]


def test_a_cookie_has_any_name() -> None:
    request = Request(URL, cookies={b"a": b"b"})  # type: ignore[dict-item]
    assert decode(encode(request, SPIDER), SPIDER).cookies == {b"a": b"b"}


@pytest.mark.parametrize("text", [Text("x"), lxml.html.fromstring("<a>x</a>").xpath("string()")])
def test_a_subclass_of_str_comes_back_as_str(text: str) -> None:
    """As what lxml gives for a text, which `CrawlSpider` has in `meta`."""
    for value in (text, {text: text}, (text,), {"a": [text]}):
        assert back(value) == value
    assert type(text) is not str
    assert type(back(text)) is str
    assert [type(key) for key in back({text: 1})] == [str]
    assert [type(inner) for inner in back((text,))] == [str]


@pytest.mark.parametrize("value", [Named.RED, Level.LOW], ids=repr)
def test_a_member_that_is_a_string_or_an_integer_comes_back_as_that(value: Any) -> None:
    for outer in (value, (value,)):
        assert back(outer) == outer
    assert type(back(value)) is type(value.value)
    assert type(back((value,))[0]) is type(value.value)


def test_plain_json_has_no_tags() -> None:
    data = encode(Request(URL, meta={"a": {"$": [1]}, "b": Text("c")}), SPIDER)
    assert orjson.loads(data) == {"v": 1, "url": URL, "meta": {"a": {"$": [1]}, "b": "c"}}
    assert decode(data, SPIDER).meta == {"a": {"$": [1]}, "b": "c"}


def test_an_object_is_made_without_its_init() -> None:
    found = Found(1)
    assert found.made == ["made"]
    assert back(found).made == ["made"]


@dataclasses.dataclass
class Unset:
    a: int = dataclasses.field(init=False)


def test_a_field_that_is_not_set_stays_so() -> None:
    assert not hasattr(back(Unset()), "a")


@dataclasses.dataclass
class Failed(Exception):
    a: int


class Own(dict[str, int]):
    pass


def with_more() -> Found:
    found = Found(1)
    found.more = 2  # type: ignore[attr-defined]
    return found


def local() -> Any:
    @dataclasses.dataclass
    class Local:
        a: int

    return Local(1)


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (open, "JSON has no builtin_function_or_method"),
        (lambda: None, "JSON has no function"),
        (object(), "JSON has no object"),
        (Colour, "JSON has no EnumType"),
        (HtmlResponse(URL), "JSON has no HtmlResponse"),
        (Own(a=1), "JSON has no Own"),
        (collections.defaultdict(list), "JSON has no defaultdict"),
        (with_more(), "a Found with attributes beside its fields"),
        (local(), "no class"),
        (Failed(1), "not safe"),
        ("\ud800", "half a surrogate pair"),
        (
            datetime.datetime(2024, 1, 1, tzinfo=zoneinfo.ZoneInfo("Europe/Berlin")),
            "a time in a zone that is no fixed offset",
        ),
        (types.SimpleNamespace(a=1), "JSON has no SimpleNamespace"),
    ],
)
def test_what_cannot_be_carried_is_refused_by_its_place(value: Any, reason: str) -> None:
    for outer in ({"a": [value]}, {"b": (1,), "a": [value]}):
        with pytest.raises(CodecError, match=reason) as caught:
            encode(Request(URL, meta=outer), SPIDER)
        assert str(caught.value).startswith(("meta.a[0]", "not safe", "object.__new__")), caught.value


def test_what_holds_itself_is_refused() -> None:
    value: list[Any] = []
    value.append(value)
    with pytest.raises(CodecError, match="nested too deeply"):
        encode(Request(URL, meta={"a": value}), SPIDER)


# What a document may name


def document(value: Any) -> bytes:
    return orjson.dumps({"v": 1, "url": URL, "tagged": True, "meta": {"a": value}})


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (["dataclass", "subprocess:Popen", {}], "in no module that the spider's module has imported"),
        (["dataclass", "tests.frontier.test_codec:CarSpider", {}], "in no module"),
        (["Item", "scrapy.item:Item", {}], "in no module"),
        (["dataclass", f"{__name__}:Product", {}], "is no dataclass"),
        (["dataclass", f"{__name__}:SPIDER", {}], "there is no class"),
        (["dataclass", f"{__name__}:Request", {}], "there is no class"),
        (["dataclass", f"{__name__}:Outer.__dict__", {}], "there is no class"),
        (["dataclass", f"{__name__}:Found.__init__", {}], "there is no class"),
        (["dataclass", f"{__name__}:Found", {"other": 1}], "has other fields"),
        (["dataclass", f"{__name__}:Found", {"__class__": 1}], "has other fields"),
        (["Item", f"{__name__}:Product", {"other": 1}], "no request can be made of it"),
        (["Enum", f"{__name__}:Colour", "__init__"], "no request can be made of it"),
        (["namedtuple", f"{__name__}:Pair", [1]], "is no namedtuple"),
        (["namedtuple", f"{__name__}:Text", []], "is no namedtuple"),
        (["pickle", "gASVAAAA"], "no request can be made of it"),
        ([], "no request can be made of it"),
        ([[], 1], "no request can be made of it"),
        (5, "no request can be made of it"),
        (["tuple", 5], "no request can be made of it"),
        (["set", [[]]], "no request can be made of it"),
        (["Decimal", "x"], "no request can be made of it"),
        (["Item", None, {}], "Item without a class"),
        (["Enum", 5, "RED"], "Enum without a class"),
        (["Item", f"{__name__}:Product", None], "Product without fields"),
    ],
)
def test_a_tag_that_is_not_ours_is_refused(value: Any, reason: str) -> None:
    with pytest.raises(CodecError, match=reason):
        decode(document({"$": value}), SPIDER)


def test_a_tagged_document_nested_too_deeply_is_refused() -> None:
    value: Any = 1
    for _ in range(120):
        value = [value]
    with pytest.raises(CodecError, match="nested too deeply"):
        decode(document(value), SPIDER)


def test_meta_has_to_be_an_object() -> None:
    data = orjson.dumps({"v": 1, "url": URL, "tagged": True, "meta": {"$": ["tuple", []]}})
    with pytest.raises(CodecError, match="meta: of type tuple"):
        decode(data, SPIDER)


def test_a_class_of_a_module_that_the_spiders_module_has_imported_is_found() -> None:
    name = next(
        name
        for name, kind in vars(model).items()
        if isinstance(kind, type) and kind.__module__ == model.__name__ and dataclasses.is_dataclass(kind)
    )
    made = decode(document({"$": ["dataclass", f"{model.__name__}:{name}", {}]}), SPIDER)
    assert type(made.meta["a"]) is getattr(model, name)


PLAIN = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.binary()
HASHABLE = st.recursive(
    PLAIN | st.decimals(allow_nan=False) | st.datetimes() | st.timedeltas(),
    lambda inner: st.tuples(inner, inner) | st.frozensets(inner, max_size=2),
    max_leaves=4,
)
VALUES = st.recursive(
    HASHABLE,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.just("$") | HASHABLE, inner, max_size=2)
        | st.builds(Slotted, st.integers(), inner)
        | st.builds(Product, st.fixed_dictionaries({"name": inner}))
        | st.builds(Pair, st.integers(), inner)
    ),
    max_leaves=8,
)
TAGS = st.sampled_from(
    ["tuple", "set", "dict", "bytes", "int", "Item", "dataclass", "Enum", "namedtuple", f"{__name__}:Pair"]
)
FORGED = st.recursive(
    PLAIN.filter(lambda value: type(value) is not bytes) | TAGS,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.just("$") | st.text(max_size=2), inner, max_size=2)
    ),
    max_leaves=8,
)


@given(VALUES)
def test_any_value_comes_back_the_same_or_is_refused(value: Any) -> None:
    try:
        data = encode(Request(URL, cb_kwargs={"a": value}), SPIDER)
    except CodecError:
        return
    assert decode(data, SPIDER).cb_kwargs == {"a": value}


@given(FORGED)
def test_any_tagged_document_is_a_request_or_refused(value: Any) -> None:
    try:
        data = document(value)
    except TypeError:
        return
    with contextlib.suppress(CodecError):
        assert isinstance(decode(data, SPIDER), Request)
