"""A request comes back as it was written down, or is refused with the field and the reason."""

from __future__ import annotations

import contextlib
import datetime
import enum
import functools
import types
from typing import Any, ClassVar

import orjson
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scrapy import FormRequest, Request, Spider
from scrapy.http import HtmlResponse, JsonRequest, XmlRpcRequest
from scrapy.http.request import NO_CALLBACK
from scrapy.linkextractors import LinkExtractor
from scrapy.spiders import CrawlSpider, Rule

from scrapy_durable.exceptions import CodecError
from scrapy_durable.frontier.codec import decode, encode, fresh_copy, keeper, marker, url_of
from scrapy_durable.frontier.shapes import Shape

FIELDS = Request.attributes
URL = "https://site.test/a?b=c%2B"


class CarSpider(Spider):
    name = "cars"

    def parse_spec(self, response: Any) -> None: ...

    def failed(self, failure: Any) -> None: ...

    @staticmethod
    def parse_alone(response: Any) -> None: ...


SPIDER = CarSpider()


class DeclaringSpider(CarSpider):
    """Queues plain JSON, and nothing that it has not declared."""

    queued: ClassVar[dict[str, Shape]] = {}


DECLARING = DeclaringSpider()


def assert_same(one: Request, other: Request) -> None:
    for field in FIELDS:
        assert getattr(one, field) == getattr(other, field), field


@pytest.mark.parametrize(
    "request_",
    [
        Request(URL),
        Request(URL, callback=SPIDER.parse_spec, errback=SPIDER.failed),
        Request(URL, callback=SPIDER.parse_alone),
        Request(URL, method="POST", body="ä", headers=[("X-A", "1"), ("X-A", "é"), (b"x-b", b"\xff\x00")]),
        Request(URL, body=b"\xff\xfe\x00"),
        Request(URL, cookies={"a": "b"}),
        Request(URL, cookies=[{"name": "a", "value": "b", "domain": "site.test"}]),
        Request(
            URL, meta={"depth": 3, "download_slot": "site.test", "download_timeout": 1.5, "x": [None, True]}
        ),
        Request(URL, cb_kwargs={"listings": [{"id": "1", "price": 2**63, "low": -(2**63), "π": "🚗"}]}),
        Request(URL, priority=-5, dont_filter=True, flags=["a"], encoding="latin-1", body="ä"),
        Request("data:,x", meta={"verbatim_url": True}),
    ],
    ids=repr,
)
def test_every_field_comes_back(request_: Request) -> None:
    data = encode(request_, SPIDER)
    assert_same(decode(data, SPIDER), request_)
    assert encode(decode(data, SPIDER), SPIDER) == data


def test_only_what_has_been_in_no_other_hands_is_not_looked_at() -> None:
    class Declares(CarSpider):
        queued: ClassVar[dict[str, Shape]] = {"parse_spec": Shape()}

    spider = Declares()
    foreign = encode(Request(URL, method="POST", callback=spider.parse_spec), spider)
    assert decode(foreign, spider, own=True).method == "POST"
    with pytest.raises(CodecError, match="method: this spider queues none"):
        decode(foreign, spider)


def test_defaults_take_no_room() -> None:
    assert encode(Request(URL), SPIDER) == b'{"v":1,"url":"%s"}' % URL.encode()


def test_the_latency_of_a_download_is_not_taken_along() -> None:
    request = Request(URL, meta={"download_latency": 0.1, "depth": 1})
    assert decode(encode(request, SPIDER), SPIDER).meta == {"depth": 1}
    assert request.meta == {"download_latency": 0.1, "depth": 1}


def test_forms_and_json_come_back_as_the_plain_request_that_they_are() -> None:
    for request in (FormRequest(URL, formdata={"a": "b"}), JsonRequest(URL, data={"a": 1})):
        back = decode(encode(request, SPIDER), SPIDER)
        assert type(back) is Request
        assert_same(back, request)


class Colour(enum.Enum):
    RED = "red"


class Text(str):
    __slots__ = ()


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ({"a": (1, 2)}, "meta.a: JSON has no tuple"),
        ({"a": b"x"}, "meta.a: JSON has no bytes"),
        ({"a": [{"b": {1, 2}}]}, "meta.a[0].b: JSON has no set"),
        ({"a": float("nan")}, "meta.a: JSON has no nan"),
        ({"a": float("-inf")}, "meta.a: JSON has no -inf"),
        ({"a": 2**64}, "meta.a: an integer beyond 64 bits"),
        ({"a": -(2**63) - 1}, "meta.a: an integer beyond 64 bits"),
        ({"a": {1: 2}}, "meta.a: the key 1 is not a string"),
        ({"a": "\ud800"}, "meta.a: a string with half a surrogate pair"),
        ({"a": Colour.RED}, "meta.a: JSON has no Colour"),
        ({"a": Text("x")}, "meta.a: JSON has no Text"),
        ({"a": datetime.datetime(2024, 1, 1)}, "meta.a: JSON has no datetime"),
        ({"a": object}, "meta.a: JSON has no type"),
    ],
)
def test_a_spider_that_declares_what_it_queues_is_refused_what_json_does_not_have_by_its_place(
    value: dict[str, Any], reason: str
) -> None:
    with pytest.raises(CodecError) as caught:
        encode(Request(URL, meta=value), DECLARING)
    assert str(caught.value) == reason
    with pytest.raises(CodecError, match="cb_kwargs"):
        encode(Request(URL, cb_kwargs=value), DECLARING)


def test_such_a_spider_gets_no_tagged_value() -> None:
    data = encode(Request(URL, meta={"a": (1, 2)}), SPIDER)
    with pytest.raises(CodecError, match="tagged: this spider queues none"):
        decode(data, DECLARING)


def test_values_nested_too_deeply_are_refused() -> None:
    value: list[Any] = []
    for _ in range(5000):
        value = [value]
    with pytest.raises(CodecError, match="nested too deeply"):
        encode(Request(URL, meta={"a": value}), SPIDER)


def test_a_callback_is_found_by_whatever_name_the_spider_has_it() -> None:
    def wrapped(self: Spider, response: Any) -> None: ...

    class Aliased(CarSpider):
        parse_decorated = wrapped

        def parse_all(self, response: Any) -> None: ...

        parse_other = parse_all
        __parse_hidden = wrapped

        def hidden(self) -> Any:
            return self.__parse_hidden

    spider = Aliased()
    spider.parse_given = types.MethodType(CarSpider.parse_spec, spider)  # type: ignore[attr-defined]
    given = types.MethodType(lambda self, response: None, spider)
    spider.parse_made = given  # type: ignore[attr-defined]
    for function in (spider.parse_decorated, spider.parse_other, spider.hidden(), given):
        back = decode(encode(Request(URL, callback=function), spider), spider)
        assert back.callback == function


def test_the_requests_of_a_crawl_spider_come_back() -> None:
    class Rules(CrawlSpider):
        name = "rules"
        rules = (Rule(LinkExtractor(), callback="parse_item", errback="failed"),)

        def parse_item(self, response: Any) -> None: ...

        def failed(self, failure: Any) -> None: ...

    spider = Rules()
    page = HtmlResponse(URL, body=b"<a href='/b'>B</a>", request=Request(URL))
    (request,) = filter(None, spider._requests_to_follow(page))
    back = decode(encode(request, spider), spider)
    assert_same(back, request)
    assert back.callback == spider._callback
    assert type(back.meta["link_text"]) is str


def test_a_marker_names_its_worker_and_address_and_is_no_request() -> None:
    data = marker(Request(URL), "worker-1")
    assert (keeper(data), url_of(data)) == ("worker-1", URL)
    for spider in (SPIDER, DECLARING):
        with pytest.raises(CodecError):
            decode(data, spider)
    for other in (encode(Request(URL), SPIDER), b'{"unserializable":7}', b'{"unserializable":', b"[]"):
        assert keeper(other) is None


@pytest.mark.parametrize(
    "function",
    [
        lambda response: None,
        functools.partial(SPIDER.parse_spec, None),
        CarSpider().parse_spec,
        print,
        NO_CALLBACK,
        SPIDER.__repr__,
    ],
)
@pytest.mark.parametrize("field", ["callback", "errback"])
def test_a_callback_that_is_no_method_of_the_spider_is_refused(field: str, function: Any) -> None:
    with pytest.raises(CodecError, match=f"^{field}: .* is not a method of the spider"):
        encode(Request(URL, **{field: function}), SPIDER)


def test_a_request_of_a_class_that_may_hold_more_is_refused() -> None:
    class Special(Request):
        pass

    for request in (Special(URL), XmlRpcRequest(URL, body="<methodCall/>")):
        with pytest.raises(CodecError, match="class: "):
            encode(request, SPIDER)


@pytest.mark.parametrize(
    ("document", "reason"),
    [
        (b"", "not JSON"),
        (b"\x80\x04\x95", "not JSON"),
        (b"[1]", "not an object"),
        ({"url": URL}, "v: version None"),
        ({"v": 2, "url": URL}, "v: version 2"),
        ({"v": True, "url": URL}, "v: version True"),
        ({"v": 1}, "url: missing"),
        ({"v": 1, "url": URL, "class": "os.system"}, "class: not a field of version 1"),
        ({"v": 1, "url": 5}, "url: of type int"),
        ({"v": 1, "url": "no-scheme"}, "no request can be made of it"),
        ({"v": 1, "url": "http://[bad"}, "no request can be made of it"),
        ({"v": 1, "url": URL, "callback": "nowhere"}, "callback: the spider has no method 'nowhere'"),
        ({"v": 1, "url": URL, "errback": "__init__"}, "errback: the spider has no method '__init__'"),
        ({"v": 1, "url": URL, "callback": "name"}, "callback: the spider has no method 'name'"),
        ({"v": 1, "url": URL, "priority": 1.5}, "priority: of type float"),
        ({"v": 1, "url": URL, "dont_filter": 1}, "dont_filter: of type int"),
        ({"v": 1, "url": URL, "flags": [1]}, "flags: one is not a string"),
        ({"v": 1, "url": URL, "headers": {"a": "b"}}, "headers.a: not a list of strings"),
        ({"v": 1, "url": URL, "headers": {"a": ["π"]}}, "no request can be made of it"),
        ({"v": 1, "url": URL, "body": "a", "body64": "YQ=="}, "body64: there is a body already"),
        ({"v": 1, "url": URL, "body64": "%"}, "no request can be made of it"),
        ({"v": 1, "url": "http://ä.test", "encoding": "no-such"}, "no request can be made of it"),
    ],
)
def test_a_document_that_is_not_ours_is_refused_with_the_reason(document: Any, reason: str) -> None:
    data = document if isinstance(document, bytes) else orjson.dumps(document)
    with pytest.raises(CodecError) as caught:
        decode(data, SPIDER)
    assert str(caught.value).startswith(reason)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.just(URL),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
FIELD_NAMES = st.sampled_from(["v", "body64", "callback", "errback", *FIELDS])


@example(meta={"durable_key": None, "_pool_proxy": 1, "download_latency": 0.1}, body=b"", priority=0)
@given(meta=st.dictionaries(st.text(), JSON), body=st.binary(), priority=st.integers())
def test_any_request_comes_back_the_same_or_is_refused(
    meta: dict[str, Any], body: bytes, priority: int
) -> None:
    request = Request(URL, meta=meta, body=body, priority=priority, callback=SPIDER.parse_spec)
    try:
        data = encode(request, SPIDER)
    except CodecError:
        return
    request = fresh_copy(request)  # names that have a meaning here are among those that are drawn
    made = decode(data, SPIDER)
    assert repr(made.meta) == repr(request.meta)  # where what is no number is the same as itself
    assert_same(made, request.replace(meta=made.meta))


@given(data=st.binary())
def test_any_bytes_are_a_request_or_refused(data: bytes) -> None:
    decode_or_refuse(data)


@given(document=st.dictionaries(FIELD_NAMES | st.text(max_size=3), JSON), whole=st.booleans())
def test_any_document_is_a_request_or_refused(document: dict[str, Any], whole: bool) -> None:
    if whole:
        document |= {"v": 1, "url": document.get("url", URL)}
    try:
        data = orjson.dumps(document)
    except TypeError:
        return
    decode_or_refuse(data)


FULL = encode(
    Request(
        URL,
        method="POST",
        body=b"\xff",
        headers={"A": "b"},
        cookies={"a": "b"},
        meta={"depth": 1},
        cb_kwargs={"x": [1]},
        callback=SPIDER.parse_spec,
        errback=SPIDER.failed,
        priority=2,
        dont_filter=True,
        flags=["f"],
        encoding="cp1252",
    ),
    SPIDER,
)


@given(st.lists(st.tuples(st.integers(0, len(FULL) - 1), st.binary(max_size=3)), min_size=1, max_size=4))
def test_any_mutation_of_a_document_is_a_request_or_refused(changes: list[tuple[int, bytes]]) -> None:
    data = bytearray(FULL)
    for position, new in changes:
        data[position : position + len(new)] = new
    decode_or_refuse(bytes(data))


def decode_or_refuse(data: bytes) -> None:
    with contextlib.suppress(CodecError):
        assert isinstance(decode(data, SPIDER), Request)


@pytest.mark.parametrize(
    ("data", "url"),
    [
        (encode(Request(URL), SPIDER), URL),
        (b'{"v":9,"url":"http://site/\\u001b[2J","other":1}', "http://site/\\x1b[2J"),
        (b'{"url":7}', ""),
        (b'["url"]', ""),
        (b"7", ""),
        (b"\x80\x81", ""),
    ],
)
def test_the_address_of_what_cannot_be_read_back_is_shown_all_the_same(data: bytes, url: str) -> None:
    assert url_of(data) == url
