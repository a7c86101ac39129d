"""What is said to the scripts in `lua/` and what they answer, as bytes; pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from struct import Struct
from struct import error as struct_error
from typing import Any

from scrapy_durable.exceptions import FrontierDamaged
from scrapy_durable.frontier.contract import (
    LONGEST_REASON,
    Counts,
    DeadLetter,
    Held,
    HeldLease,
    Inbox,
    Key,
    Lease,
    LogStatus,
    Outbox,
    Pace,
    SlotUse,
    SlotWait,
    Status,
    WorkerStatus,
)
from scrapy_durable.frontier.log_names import is_log_name
from scrapy_durable.frontier.reasons import kind_of
from scrapy_durable.frontier.report import pack_report, read_report
from scrapy_durable.frontier.views import Element, Listing

LEAST_PRIORITY, MOST_PRIORITY = -(2**31), 2**31 - 1
LOG_OPEN, LOG_ABANDONED = 0, 2
"""States of an item log; 1 is closed."""
LONGEST = 1e9
"""Seconds, some thirty years: a longer delay or pause is cut to this."""

# The fixed parts of messages and answers, as `exchange.lua` has them.
_KEY = Struct(">q")
_HELD = Struct(">qQ")
_ENTRY = Struct(">qIQB")
_ACK = Struct(">qQB")
_TOKEN = Struct(">Q")
_RETRY = Struct(">qQQ")
_PAUSE = Struct(">Q")
_PACE = Struct(">Qd")
_LENGTH_OF_PAYLOAD = _NUMBER = Struct(">I")
_LEASE = Struct(">qQHHHIB")
_PREFIX_LENGTH = 16


@contextmanager
def reading(what: str) -> Iterator[None]:
    """An answer that cannot be read is made of what somebody else has written."""
    try:
        yield
    except (struct_error, ValueError, TypeError, LookupError, AttributeError, OverflowError) as error:
        raise FrontierDamaged(
            f"{what} in Redis cannot be read ({type(error).__name__}), so somebody else has written there; "
            "`scrapy queue forget`, and crawl again"
        ) from error


def microseconds(seconds: float) -> int:
    """At most `LONGEST`."""
    return round(min(seconds, LONGEST) * 1_000_000)


def rows(flat: Sequence[Any], width: int) -> Iterator[tuple[Any, ...]]:
    """The rows of a table that was sent as one flat list."""
    return zip(*[iter(flat)] * width, strict=True)


def pack_outbox(outbox: Outbox) -> list[bytes]:
    """The messages of an exchange, packed as `exchange.lua` reads them."""
    entries = bytearray()
    for entry in outbox.entries:
        decimal, slot, callback = b"%d" % entry.key, entry.slot.encode(), entry.callback.encode()
        rank = MOST_PRIORITY - max(LEAST_PRIORITY, min(entry.priority, MOST_PRIORITY))
        delay = microseconds(max(0.0, entry.delay))
        entries += _ENTRY.pack(entry.key, rank, delay, len(decimal)) + decimal
        entries += _text(slot) + _text(callback) + _LENGTH_OF_PAYLOAD.pack(len(entry.payload)) + entry.payload
    acks, logged = bytearray(), bytearray()
    for packed, acknowledged in ((acks, outbox.acks), (logged, outbox.logged)):
        for held in acknowledged:
            decimal = b"%d" % held.key
            packed += _ACK.pack(held.key, held.token, len(decimal)) + decimal
    retries = b"".join(
        _RETRY.pack(retry.held.key, retry.held.token, microseconds(retry.delay)) + _reasons(retry.reason)
        for retry in outbox.retries
    )
    dead_lettered = b"".join(
        _pack_held([message.held]) + _reasons(message.reason) for message in outbox.dead_lettered
    )
    pauses = b"".join(
        _PAUSE.pack(microseconds(pause.seconds))
        + _text(slot.encode())
        + _reason(pause.reason[:LONGEST_REASON])
        for slot, pause in outbox.pauses.items()
    )
    paces = b"".join(
        _PACE.pack(change.version, change.interval) + _text(slot.encode())
        for slot, change in outbox.paces.items()
    )
    return [
        bytes(entries),
        _pack_held(outbox.downloaded),
        _pack_held(outbox.unsent),
        bytes(acks),
        bytes(logged),
        b"".join(_TOKEN.pack(token) for token in outbox.confirmed),
        retries,
        dead_lettered,
        _pack_held(outbox.releases),
        _pack_held(outbox.renewals),
        pauses,
        paces,
        _pack_held(outbox.sent),
        b"".join(_NUMBER.pack(number) + _text(slot.encode()) for slot, number in outbox.spares.items()),
        pack_report(outbox.report),
    ]


def read_dead_letters(reply: Any) -> list[DeadLetter]:
    """Of `dead_letters.lua`."""
    return [
        DeadLetter(
            key=read_keys(key)[0],
            slot=slot.decode(),
            callback=callback.decode(),
            attempts=attempts,
            reason=reason.decode(errors="replace"),
            died_at=float(died_at) / 1e6,
            payload=payload,
            failures=failures,
        )
        for key, slot, callback, attempts, failures, reason, died_at, payload in rows(reply, 8)
    ]


def read_element(key: Key, reply: Any) -> Element | None:
    """Of `find.lua`."""
    if not reply:
        return None
    state, *rest = reply
    if not rest:
        return Element(key, state.decode())
    slot, callback, rank, pushed_at, attempts, failures, *times, worker, reason, payload = rest
    due, since, deadline, died_at = (float(time) / 1e6 for time in times)
    return Element(
        key=key,
        state=state.decode(),
        slot=slot.decode(),
        callback=callback.decode(),
        priority=MOST_PRIORITY - rank,
        pushed_at=float(pushed_at) / 1e6,
        attempts=attempts,
        failures=failures,
        due=due or None,
        worker=worker.decode(),
        since=since,
        deadline=deadline,
        died_at=died_at,
        reason=reason.decode(errors="replace"),
        payload=payload,
    )


def read_listing(reply: Any) -> Listing:
    """Of `list.lua`."""
    matched, looked, total, *found = reply
    elements = [read_element(read_keys(key)[0], row) for key, row in rows(found[0] if found else [], 2)]
    return Listing([element for element in elements if element is not None], matched, looked, total)


def read_held_leases(reply: Any) -> list[HeldLease]:
    """Of `leases.lua`."""
    return [
        HeldLease(
            key=read_keys(key)[0],
            token=token,
            slot=slot.decode(),
            callback=callback.decode(),
            worker=worker.decode(),
            attempt=attempt,
            failures=failures,
            since=since / 1e6,
            deadline=deadline / 1e6,
            downloaded=downloaded == 1,
            payload=payload,
        )
        for key, token, attempt, failures, downloaded, deadline, since, slot, callback, worker, payload in rows(
            reply, 11
        )
    ]


def _text(encoded: bytes) -> bytes:
    """A text with its length in front."""
    return len(encoded).to_bytes(2, "big") + encoded


def _reason(reason: str) -> bytes:
    """A reason with its length in front, cut to what the length can say."""
    return _text(reason.encode(errors="replace")[:65535])


def _reasons(reason: str) -> bytes:
    """A reason and its kind."""
    return _reason(reason) + _reason(kind_of(reason))


def _pack_held(held: Iterable[Held]) -> bytes:
    return b"".join([_HELD.pack(one.key, one.token) for one in held])


def read_keys(packed: bytes) -> list[Key]:
    """Eight bytes each."""
    return [key for (key,) in _KEY.iter_unpack(packed)]


def _read_leases(packed: bytes) -> list[Lease]:
    leases = []
    position = 0
    while position < len(packed):
        key, token, attempt, failures, slot_length, record_length, is_spare = _LEASE.unpack_from(
            packed, position
        )
        slot = position + _LEASE.size
        record = slot + slot_length
        position = record + record_length
        payload = packed[record + _PREFIX_LENGTH : position]
        leases.append(
            Lease(key, token, attempt, packed[slot:record].decode(), payload, failures, bool(is_spare))
        )
    return leases


def read_inbox(reply: Any, outbox: Outbox) -> Inbox:
    """The answer to that outbox."""
    unfinished, next_due, leases, refused, stale, dead_lettered, paces, now, ahead = reply
    return Inbox(
        leases=_read_leases(leases),
        refused=read_keys(refused),
        stale=[Held(key, token) for key, token in _HELD.iter_unpack(stale)],
        dead_lettered=read_keys(dead_lettered),
        unfinished=unfinished,
        next_due=None if next_due < 0 else next_due / 1e6,
        now=now / 1e6,
        ahead=ahead / 1e6,
        paces={
            slot: Pace(*known) for slot, known in zip(outbox.paces, _PACE.iter_unpack(paces), strict=True)
        },
    )


def read_workers(flat: Sequence[Any]) -> list[WorkerStatus]:
    """Of `workers.lua`, by name."""
    found = (
        WorkerStatus(name.decode(), leased, float(last_seen) / 1e6, read_report(report))
        for name, leased, last_seen, report in rows(flat, 4)
    )
    return sorted(found, key=lambda status: status.worker)


def read_logs(flat: Sequence[Any]) -> list[LogStatus]:
    """Of `logs.lua`, by name."""
    found = []
    for name, worker, unconfirmed, state, last_seen in rows(flat, 5):
        if not is_log_name(name.decode()):
            raise ValueError("not the name of an item log")
        closed, abandoned = state != LOG_OPEN, state == LOG_ABANDONED
        found.append(
            LogStatus(name.decode(), worker.decode(), unconfirmed, closed, abandoned, float(last_seen) / 1e6)
        )
    return sorted(found, key=lambda status: status.name)


def _read_reasons(flat: Sequence[Any], what: str) -> dict[str, int]:
    """How often, by the kind of reason."""
    named = ((field.decode(errors="replace"), int(number)) for field, number in rows(flat, 2))
    return {field.removeprefix(what): number for field, number in named if field.startswith(what)}


def _read_waits(flat: Sequence[Any]) -> Iterator[tuple[str, SlotWait]]:
    for slot, why, until, reason, cap, interval, in_flight in rows(flat, 7):
        yield (
            slot.decode(),
            SlotWait(
                why=why.decode(),
                until=until / 1e6 if until else None,
                reason=reason.decode(errors="replace"),
                cap=cap,
                interval=interval / 1e6,
                in_flight=in_flight,
            ),
        )


def read_status(reply: Any) -> Status:
    """Of `status.lua`."""
    crawl_id, cells, past_due, oldest, workers, stale, identity, now, reasons, waits, uses, leases, logs = (
        reply
    )
    total = [0] * 5
    slots: dict[str, list[int]] = {}
    callbacks: dict[str, list[int]] = {}
    for slot, callback, *numbers in rows(cells, 7):
        for sums in (
            total,
            slots.setdefault(slot.decode(), [0] * 5),
            callbacks.setdefault(callback.decode(), [0] * 5),
        ):
            sums[:] = [a + b for a, b in zip(sums, numbers, strict=True)]
    return Status(
        crawl_id=crawl_id.decode(),
        total=Counts(*total),
        past_due=past_due,
        oldest=None if oldest < 0 else float(oldest),
        slots={name: Counts(*numbers) for name, numbers in slots.items() if any(numbers)},
        callbacks={name: Counts(*numbers) for name, numbers in callbacks.items() if any(numbers)},
        workers=read_workers(workers),
        stale_messages=stale,
        identity=identity.decode(errors="replace"),
        retried=_read_reasons(reasons, "retry:"),
        dead_lettered=_read_reasons(reasons, "dead:"),
        waits=dict(_read_waits(waits)),
        now=now / 1e6,
        in_flight={
            slot.decode(): SlotUse(in_flight, cap, interval / 1e6)
            for slot, cap, interval, in_flight in rows(uses, 4)
        },
        leases=read_held_leases(leases),
        logs=read_logs(logs),
    )
