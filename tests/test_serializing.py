"""What cannot be serialized stays in memory for as long as the frontier has a marker of it."""

from __future__ import annotations

import pytest
from scrapy import Request, Spider
from scrapy.utils.test import get_crawler

from scrapy_durable.exceptions import CodecError, KeptElsewhere
from scrapy_durable.frontier.contract import DeadLettered, Entry, Held, Inbox, Key, Lease, Outbox
from scrapy_durable.serializing import Serializer

URL = "https://site.test/"


class Declaring(Spider):
    name = "declaring"
    queued: dict[str, object] = {}  # noqa: RUF012


def made(*, resumable: bool = True, spider: type[Spider] = Spider, worker: str = "a") -> Serializer:
    serializer = Serializer(worker, get_crawler().stats, resumable=resumable)
    serializer.begin(spider(name="any"))
    return serializer


def unserializable() -> Request:
    return Request(URL, callback=lambda response: None, meta={"download_latency": 1})


def lease(key: Key, payload: bytes) -> Lease:
    return Lease(key, 1, 1, "site.test", payload)


def answer(*refused: Key, dead_lettered: list[Key] | None = None) -> Inbox:
    return Inbox([], list(refused), [], dead_lettered or [], 1, None, 0.0)


def queue(serializer: Serializer, request: Request, key: Key = 1) -> Entry:
    return Entry(key, "site.test", "parse", serializer.payload(request, key))


def test_the_same_object_comes_back_and_a_copy_when_it_is_tried_again() -> None:
    serializer, request = made(), unserializable()
    entry = queue(serializer, request)
    assert serializer.read(lease(1, entry.payload)) is request
    again = serializer.read(lease(1, entry.payload))
    assert again is not request
    assert (again.callback, again.meta) == (request.callback, {})


def test_the_same_object_queued_twice_is_never_in_hand_twice() -> None:
    serializer, request = made(), unserializable()
    entries = [queue(serializer, request, key) for key in (1, 2)]
    read = [serializer.read(lease(entry.key, entry.payload)) for entry in entries]
    assert read[0] is not read[1]


@pytest.mark.parametrize(
    "end",
    [
        (Outbox(acks=[Held(1, 1)]), answer()),
        (Outbox(dead_lettered=[DeadLettered(Held(1, 1), "")]), answer()),
        (Outbox(), answer(dead_lettered=[1])),
    ],
    ids=["acknowledged", "dead", "attempts used up"],
)
def test_it_is_forgotten_when_it_is_done(end: tuple[Outbox, Inbox]) -> None:
    serializer = made()
    entry = queue(serializer, unserializable())
    serializer.hear(Outbox(entries=[entry]), answer())
    assert serializer.lost_at_the_end == 1
    serializer.hear(*end)
    assert serializer.lost_at_the_end == 0
    with pytest.raises(KeptElsewhere):
        serializer.read(lease(1, entry.payload))


def test_one_that_is_refused_is_forgotten_but_not_the_one_that_is_there() -> None:
    serializer = made()
    entry = queue(serializer, unserializable())
    serializer.hear(Outbox(entries=[entry]), answer(1))
    assert serializer.lost_at_the_end == 0
    serializer.hear(Outbox(entries=[queue(serializer, unserializable())]), answer())
    serializer.hear(Outbox(entries=[queue(serializer, unserializable())]), answer(1))
    assert serializer.lost_at_the_end == 1


def test_what_another_worker_has_is_put_back_and_delayed_while_nothing_is_leased() -> None:
    entry = queue(made(worker="a"), unserializable())
    other = made(worker="b")
    foreign = lease(1, entry.payload)
    with pytest.raises(KeptElsewhere) as caught:
        other.read(foreign)
    assert caught.value.worker == "a"
    other.put_back(foreign)
    outbox = Outbox()
    assert other.puts_back
    other.say(outbox)
    assert (outbox.releases, outbox.unsent, other.puts_back) == ([foreign.held], [foreign.held], True)
    other.hear(outbox, answer())
    assert (other.puts_back, other.is_urgent) == (False, True)
    other.say(following := Outbox())
    (delayed,) = following.entries
    assert (delayed.key, delayed.payload, delayed.delay > 0) == (1, entry.payload, True)
    assert not other.is_urgent


def test_a_spider_that_declares_what_it_queues_is_refused() -> None:
    serializer = made(spider=Declaring)
    with pytest.raises(CodecError):
        serializer.payload(unserializable(), 1)
    assert serializer.lost_at_the_end == 0


def test_where_nothing_outlives_the_process_every_request_stays_what_it_is() -> None:
    serializer, request = made(resumable=False), Request(URL)
    assert serializer.read(lease(1, serializer.payload(request, 1))) is request
    assert serializer.lost_at_the_end == 0
