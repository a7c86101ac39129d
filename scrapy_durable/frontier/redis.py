"""The frontier on a Redis or Valkey server, for any number of workers: one Lua script per operation, in
`lua/`.

A script runs alone and as a whole, so every operation is one step for all workers. The server's clock is
the only one. What the keys are is written in `lua/keys.lua`.

The *seen set* holds the keys of what is done as 64-bit integers in 65,536 sets. Up to 512 integers a set is
a sorted array of 8 bytes each, so that a URL costs about 9 bytes at ten million; above 33 million the sets
turn into hash tables of some 80 bytes per URL, unless `set-max-intset-entries` is raised on the server. In
a hundred million URLs, two with the same 64-bit fingerprint are to be expected 0.0003 times.
"""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from errno import errorcode
from hashlib import sha1
from importlib.resources import files
from ssl import SSLError
from struct import Struct
from struct import error as struct_error
from typing import Any

from redis.asyncio import Redis
from redis.exceptions import (
    AuthenticationError,
    AuthorizationError,
    NoPermissionError,
    NoScriptError,
    OutOfMemoryError,
    ReadOnlyError,
    RedisError,
    ResponseError,
)
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import TimeoutError as RedisTimeoutError

from scrapy_durable.exceptions import (
    ConfigurationError,
    ForeignCrawl,
    FrontierDamaged,
    FrontierError,
    FrontierLost,
    FrontierRefused,
    FrontierUnavailable,
    OtherRelease,
)
from scrapy_durable.frontier.contract import (
    Counts,
    CrawlState,
    DeadLetter,
    Held,
    Inbox,
    Key,
    Lease,
    Outbox,
    Pace,
    SlotLimit,
    Status,
    WorkerStatus,
)
from scrapy_durable.frontier.report import pack_report, read_report

logger = logging.getLogger(__name__)

FIXED_KEYS = {
    "crawl": "hash",
    "names": "hash",
    "elements": "hash",
    "attempts": "hash",
    "ready": "zset",
    "delayed": "zset",
    "overdue": "set",
    "leases": "hash",
    "deadlines": "zset",
    "in_flight": "hash",
    "rotation": "zset",
    "held": "zset",
    "paused": "hash",
    "dead": "hash",
    "deaths": "zset",
    "tally": "hash",
    "ages": "hash",
    "workers": "hash",
    "replies": "hash",
    "limits": "hash",
    "paces": "hash",
    "gaps": "hash",
    "reports": "hash",
}
"""The keys that every script gets, in the order of `lua/keys.lua`, with their types."""

STATE_VERSION = "1"
"""As in `lua/keys.lua`."""
BUCKETS = 2**16
"""Sets that the seen set is spread over."""
OLDEST_VERSION = (7, 0)
LEAST_PRIORITY, MOST_PRIORITY = -(2**31), 2**31 - 1
BATCH = 1000
"""Dead letters, or keys to remove, that one call of a script deals with: a few milliseconds for the server.
"""
PATIENCE = 10.0
"""Seconds that a server which is there, but does not answer yet, is asked again for at start."""
LONGEST = 1e9
"""Seconds, some thirty years: a longer delay or pause is cut to this."""
VERDICT_KEPT = 3600
"""Seconds for which a verdict is kept, from when it is published and again from `forget`."""
TRY_AGAIN = ("BUSY", "MASTERDOWN", "CLUSTERDOWN", "TRYAGAIN", "MISCONF", "NOREPLICAS", "UNKILLABLE")
"""Error codes of a server that may do the same thing later."""

_LONGEST_REASON = 200
"""Characters of what the system or the server says that are passed on."""

# The fixed parts of messages and answers, as `exchange.lua` has them.
_KEY = Struct(">q")
_HELD = Struct(">qQ")
_ENTRY = Struct(">qIQIB")
_ACK = Struct(">qQIB")
_RETRY = Struct(">qQQ")
_PAUSE = Struct(">Q")
_PACE = Struct(">Qd")
_LENGTH_OF_PAYLOAD = Struct(">I")
_LEASE = Struct(">qQHHHI")
_PREFIX_LENGTH = 16


@dataclass(frozen=True, slots=True)
class Script:
    """The text of a script as the server gets it, and its hash, by which it is called."""

    text: str
    sha: str


def load_script(operation: str, flags: str | None = None) -> Script:
    """The script `lua/<operation>.lua`, behind the pieces that its header names; `flags` stand in for the
    header's.
    """
    folder = files("scrapy_durable.frontier").joinpath("lua")
    body = folder.joinpath(f"{operation}.lua").read_text("utf-8")
    header = dict(
        line[3:].split(": ", 1) for line in body.splitlines() if line.startswith(("-- Uses: ", "-- Flags: "))
    )
    flags = header.get("Flags", "") if flags is None else flags
    pieces = ["keys.lua", *header.get("Uses", "").split()]
    texts = [folder.joinpath(piece).read_text("utf-8") for piece in pieces]
    shebang = f"#!lua flags={flags}\n" if flags else "#!lua\n"
    text = shebang + "\n".join([*texts, body])
    return Script(text, sha1(text.encode(), usedforsecurity=False).hexdigest())


BEGIN = load_script("begin")
EXCHANGE = load_script("exchange")
EXCHANGE_WHEN_FULL = load_script("exchange", flags="allow-oom")
STATUS = load_script("status")
WORKERS = load_script("workers")
DEAD_LETTERS = load_script("dead_letters")
RETRY_DEAD = load_script("retry_dead")
DROP_DEAD = load_script("drop_dead")
ELECT_FINISHER = load_script("elect_finisher")
PUBLISH_VERDICT = load_script("publish_verdict")
FORGET = load_script("forget")


class RedisFrontier:
    """A frontier under the keys `{<prefix>}:…` of a server.

    `client` brings its own time-outs, which should be short, since a call lasts as long as they allow; its
    retries are not needed and do no harm. `lease_seconds` is how long a lease holds without renewal,
    `max_attempts` how often an element is leased before it is dead-lettered. The limits of the worker that
    began last are those of all.

    `clock_offset` (seconds) moves the server's clock; only tests set it.
    """

    def __init__(
        self,
        client: Redis,
        *,
        prefix: str,
        worker: str,
        lease_seconds: float = 60,
        max_attempts: int = 5,
        limits: Mapping[str, SlotLimit],
        default_limit: SlotLimit,
    ) -> None:
        self.clock_offset = 0.0
        self._client = client
        self._prefix = f"{{{prefix}}}:".encode()
        self._keys = [self._prefix + name.encode() for name in FIXED_KEYS]
        self._worker = worker
        self._lease = _microseconds(lease_seconds)
        self._max_attempts = max_attempts
        self._limits = limits
        self._default_limit = default_limit
        self._nonce = secrets.token_hex(8)
        self._number = 0
        self._unanswered: tuple[Outbox, int] | None = None
        self._crawl_id: str | None = None

    async def begin(self, crawl_id: str, identity: str = "") -> CrawlState:
        """Look whether the server is fit, and join the crawl on it or begin one; see the contract.

        Raises `OtherRelease`, and `ConfigurationError` when the server is too old, may evict keys, refuses the user or
        password, or has something else under the keys.
        """
        await self._inspect_server()
        if foreign := await self._foreign_keys():
            await self._refuse_other_release()
            raise ConfigurationError(f"{self._place()}: {foreign}")
        limits: list[str | int] = [self._default_limit.cap, _microseconds(self._default_limit.interval)]
        for slot, limit in self._limits.items():
            limits += [slot, limit.cap, _microseconds(limit.interval)]
        arguments = [crawl_id, self._nonce, self._worker, self._offset(), identity, *limits]
        state, found, *rest = await self._run(BEGIN, self._keys, arguments)
        with _reading("the crawl"):
            while state == b"forgetting":
                await self._sweep(found.decode())
                state, found, *rest = await self._run(BEGIN, self._keys, arguments)
            if state == b"release":
                raise self._other_release(found.decode(errors="replace"))
            if state == b"foreign":
                raise ForeignCrawl(self._place(), rest[0].decode(errors="replace"), identity)
            self._crawl_id = found.decode()
            resumed, now, ahead = rest
            return CrawlState(self._crawl_id, resumed=bool(resumed), now=now / 1e6, ahead=ahead / 1e6)

    async def time(self) -> float:
        """The server's clock, as the contract has it."""
        reply = await self._command("TIME")
        with _reading("the time"):
            seconds, microseconds = reply
            return int(seconds) + int(microseconds) / 1e6 + self.clock_offset

    async def exchange(self, outbox: Outbox, want: int) -> Inbox:
        """One round trip; see the contract.

        When the server's memory is full, an outbox without entries passes all the same. Of one with entries
        only the landings and renewals pass, and `FrontierUnavailable` is raised: its acks have to wait for
        its entries, which may be the children of what is acked, and the caller repeats the whole later.
        """
        number = self._number_of(outbox)
        try:
            reply = await self._exchange(EXCHANGE, outbox, want, number)
        except _MemoryFullError as error:
            if outbox.entries:
                relief = Outbox(downloaded=outbox.downloaded, unsent=outbox.unsent, renewals=outbox.renewals)
                await self._exchange(EXCHANGE_WHEN_FULL, relief, 0, 0)
                raise FrontierUnavailable(f"{error}; no request was added") from error
            reply = await self._exchange(EXCHANGE_WHEN_FULL, outbox, want, number)
        self._unanswered = None
        with _reading("an exchange"):
            return _read_inbox(reply, outbox)

    def _number_of(self, outbox: Outbox) -> int:
        """The number of this exchange: that of the last one if it was not answered and had the same outbox."""
        if self._unanswered is None or self._unanswered[0] is not outbox:
            self._number += 1
            self._unanswered = (outbox, self._number)
        return self._unanswered[1]

    async def _exchange(self, script: Script, outbox: Outbox, want: int, number: int) -> Any:
        if self._crawl_id is None:
            raise FrontierLost("no crawl has been joined")
        head: list[str | int | bytes] = [
            self._crawl_id,
            self._worker,
            self._nonce,
            number,
            self._lease,
            self._max_attempts,
            self._offset(),
            want,
        ]
        keys, messages = self._write_outbox(outbox)
        return await self._run(script, keys, [*head, *messages])

    def _write_outbox(self, outbox: Outbox) -> tuple[list[bytes], list[bytes]]:
        """The keys and the messages of an exchange, packed as `exchange.lua` reads them."""
        keys = list(self._keys)
        positions: dict[int, int] = {}

        def position(key: Key) -> int:
            bucket = key % BUCKETS
            if bucket not in positions:
                keys.append(self._bucket(bucket))
                positions[bucket] = len(keys)
            return positions[bucket]

        entries = bytearray()
        for entry in outbox.entries:
            decimal, slot, callback = b"%d" % entry.key, entry.slot.encode(), entry.callback.encode()
            rank = MOST_PRIORITY - max(LEAST_PRIORITY, min(entry.priority, MOST_PRIORITY))
            delay = _microseconds(max(0.0, entry.delay))
            entries += _ENTRY.pack(entry.key, rank, delay, position(entry.key), len(decimal)) + decimal
            entries += (
                _text(slot) + _text(callback) + _LENGTH_OF_PAYLOAD.pack(len(entry.payload)) + entry.payload
            )
        acks = bytearray()
        for held in outbox.acks:
            decimal = b"%d" % held.key
            acks += _ACK.pack(held.key, held.token, position(held.key), len(decimal)) + decimal
        retries = b"".join(
            _RETRY.pack(retry.held.key, retry.held.token, _microseconds(retry.delay)) + _reason(retry.reason)
            for retry in outbox.retries
        )
        dead_lettered = b"".join(
            _pack_held([message.held]) + _reason(message.reason) for message in outbox.dead_lettered
        )
        pauses = b"".join(
            _PAUSE.pack(_microseconds(seconds)) + _text(slot.encode())
            for slot, seconds in outbox.pauses.items()
        )
        paces = b"".join(
            _PACE.pack(change.version, change.interval) + _text(slot.encode())
            for slot, change in outbox.paces.items()
        )
        return keys, [
            bytes(entries),
            _pack_held(outbox.downloaded),
            _pack_held(outbox.unsent),
            bytes(acks),
            retries,
            dead_lettered,
            _pack_held(outbox.releases),
            _pack_held(outbox.renewals),
            pauses,
            paces,
            pack_report(outbox.report),
        ]

    async def status(self) -> Status:
        """Counts, slots, callbacks and workers, from one script."""
        reply = await self._run(STATUS, self._keys, [self._offset()])
        if not reply:
            return Status(None, Counts(0, 0, 0, 0, 0), 0, None, {}, {}, [], 0)
        with _reading("the state of the crawl"):
            return _read_status(reply)

    async def workers(self) -> list[WorkerStatus]:
        """Of all workers of the crawl, in one short script."""
        reply = await self._run(WORKERS, self._keys, [])
        with _reading("the workers of the crawl"):
            return _read_workers(reply)

    async def dead_letters(self, limit: int = 1000, skip: int = 0) -> list[DeadLetter]:
        """The dead letters, oldest first."""
        reply = await self._run(DEAD_LETTERS, self._keys, [limit, skip])
        with _reading("a dead letter"):
            return [
                DeadLetter(
                    key=_read_keys(key)[0],
                    slot=slot.decode(),
                    callback=callback.decode(),
                    attempts=attempts,
                    reason=reason.decode(errors="replace"),
                    died_at=float(died_at) / 1e6,
                    payload=payload,
                    failures=failures,
                )
                for key, slot, callback, attempts, failures, reason, died_at, payload in _rows(reply, 8)
            ]

    async def retry_dead(self) -> int:
        """Queue every dead letter again, with its attempts and failures back at zero; returns how many."""
        return await self._until_few(RETRY_DEAD)

    async def drop_dead(self) -> int:
        """Remove every dead letter and forget that it was ever pushed; returns how many."""
        return await self._until_few(DROP_DEAD)

    async def _until_few(self, script: Script) -> int:
        """Call a script on the dead letters, batch by batch, until it does less than it was asked for."""
        total = 0
        while True:
            number: int = await self._run(script, self._keys, [BATCH, self._offset()])
            total += number
            if number < BATCH:
                return total

    async def elect_finisher(self) -> bool:
        """Whether this worker may finish it; see the contract."""
        arguments = (self._joined(), self._worker, self._lease, self._offset())
        return bool(
            await self._run(ELECT_FINISHER, [*self._keys, self._verdict_key(self._joined())], arguments)
        )

    async def publish_verdict(self, verdict: bytes) -> None:
        """Leave the verdict for the workers that wait; it is kept for an hour, and for an hour after
        `forget`.
        """
        arguments = (self._joined(), verdict, VERDICT_KEPT)
        await self._run(PUBLISH_VERDICT, [*self._keys, self._verdict_key(self._joined())], arguments)

    async def verdict(self) -> bytes | None:
        """What was published for the crawl that this worker has joined, or None."""
        verdict: bytes | None = await self._command("GET", self._verdict_key(self._joined()))
        return verdict

    async def forget(self) -> None:
        """Remove the crawl with all it has seen, in some seventy short calls.

        Its workers are told with the first call. If this process dies meanwhile, the next `begin` does the
        rest.
        """
        found = await self._command("HGET", self._keys[0], "id")
        if found is None:
            found = await self._command("HGET", self._keys[0], "forgetting")
        if found is None:
            return
        crawl_id = found.decode()
        keys = [*self._keys, self._verdict_key(crawl_id)]
        await self._run(FORGET, keys, [crawl_id, "mark", VERDICT_KEPT])
        await self._sweep(crawl_id)

    async def _sweep(self, crawl_id: str) -> None:
        """Remove the keys of a crawl that is marked as going."""
        for first in range(0, BUCKETS, BATCH):
            buckets = [self._bucket(number) for number in range(first, min(first + BATCH, BUCKETS))]
            await self._run(FORGET, [*self._keys, *buckets], [crawl_id, "sweep"])
        await self._run(FORGET, self._keys, [crawl_id, "end"])

    async def close(self) -> None:
        """Close the client's connections."""
        await self._client.aclose()

    async def check(self) -> None:
        """Look whether the server is fit, and join nothing. One that loads its data or is slow is asked again for
        `PATIENCE` seconds; one that is not there, not at all.
        """
        until = time.monotonic() + PATIENCE
        while True:
            try:
                return await self._inspect_server()
            except FrontierUnavailable as error:
                if _refusal(error) is not None or time.monotonic() >= until:
                    raise
            await asyncio.sleep(0.2)

    async def _inspect_server(self) -> None:
        """Raise `ConfigurationError` for a server that would lose what it is given; warn of one that may."""
        try:
            version, policy, append_only = await self._read_server()
        except FrontierRefused as error:
            raise ConfigurationError(str(error)) from error
        except NoPermissionError:
            logger.warning(
                "%s does not show its configuration: whether it evicts keys is not known", self._place()
            )
            return
        if version < OLDEST_VERSION:
            raise ConfigurationError(f"{self._place()} is older than Redis 7.0")
        if policy != "noeviction":
            raise ConfigurationError(
                f"{self._place()} has maxmemory-policy {policy}, which throws requests away when it is full; "
                "set it to noeviction"
            )
        if append_only == "no":
            logger.warning(
                "%s has no append-only file: what it holds is lost when it is killed (set appendonly to yes)",
                self._place(),
            )

    async def _read_server(self) -> tuple[tuple[int, ...], str, str]:
        """Version, eviction policy, and "yes" or "no" for the append-only file."""
        info = await self._command("INFO", "server")
        version = _field(info, "redis_version")
        policy = await self._command("CONFIG GET", "maxmemory-policy")
        append_only = await self._command("CONFIG GET", "appendonly")
        numbers = tuple(int(part) for part in version.split(".")[:2])
        return numbers, _field(policy, "maxmemory-policy"), _field(append_only, "appendonly")

    async def _run(
        self, script: Script, keys: Sequence[bytes], arguments: Sequence[str | int | bytes]
    ) -> Any:
        """Call a script by its hash, or by its text when the server does not have it (any more)."""
        try:
            try:
                return await self._command("EVALSHA", script.sha, len(keys), *keys, *arguments)
            except NoScriptError:
                return await self._command("EVAL", script.text, len(keys), *keys, *arguments)
        except NoPermissionError as error:
            raise FrontierRefused(f"{self._place()} does not let this user do it: {_why(error)}") from error
        except FrontierDamaged as error:
            if foreign := await self._foreign_keys():
                raise FrontierDamaged(f"{self._place()}: {foreign}") from error
            raise

    async def _foreign_keys(self) -> str:
        """Which of the keys holds something of another type, put there by somebody else; "" when none does."""
        for key, kind in zip(self._keys, FIXED_KEYS.values(), strict=True):
            try:
                found = (await self._command("TYPE", key)).decode()
            except NoPermissionError as error:
                raise FrontierRefused(
                    f"{self._place()} does not let this user do it: {_why(error)}"
                ) from error
            if found not in (kind, "none"):
                return f"the key {key.decode()} is a {found}, not a {kind}, so somebody else has put it there"
        return ""

    async def _command(self, *words: str | int | bytes) -> Any:
        """Send a command; raises the project's errors, but for those that the callers here know what to do
        about.
        """
        try:
            return await self._client.execute_command(*words, NEVER_DECODE=True)  # type: ignore[no-untyped-call]
        except (NoScriptError, NoPermissionError):
            raise
        except (AuthenticationError, AuthorizationError) as error:
            raise FrontierRefused(f"{self._place()} refuses the user or password") from error
        except OutOfMemoryError as error:
            raise _MemoryFullError(f"the memory of {self._place()} is full") from error
        except (RedisConnectionError, RedisTimeoutError, ReadOnlyError) as error:
            raise FrontierUnavailable(f"{self._place()} does not answer: {_why(error)}") from error
        except ResponseError as error:
            if str(error).startswith("RELEASE "):
                raise self._other_release(str(error).split()[1]) from error
            if str(error).startswith("LOST"):
                raise FrontierLost(f"crawl {self._crawl_id} is gone from {self._place()}") from error
            if "ACL failure in script" in str(error) or "user executing the script" in str(error):
                raise FrontierRefused(
                    f"{self._place()} does not let this user do it: {_why(error)}"
                ) from error
            if str(error).startswith(TRY_AGAIN):
                raise FrontierUnavailable(f"{self._place()} cannot do it now: {error}") from error
            raise FrontierDamaged(_fault(self._place(), str(error))) from error
        except RedisError as error:
            raise FrontierError(f"{self._place()}: {error}") from error

    async def _refuse_other_release(self) -> None:
        """Raise `OtherRelease` for a crawl of another version, whatever its other keys are."""
        if await self._command("TYPE", self._keys[0]) == b"hash":
            crawl_id, version = await self._command("HMGET", self._keys[0], "id", "version")
            if crawl_id is not None and version != STATE_VERSION.encode():
                raise self._other_release("0" if version is None else version.decode(errors="replace"))

    def _other_release(self, found: str) -> OtherRelease:
        return OtherRelease(self._place(), found, STATE_VERSION, "give it up with 'scrapy queue forget'")

    def _joined(self) -> str:
        if self._crawl_id is None:
            raise FrontierLost("no crawl has been joined")
        return self._crawl_id

    def _offset(self) -> int:
        return _microseconds(self.clock_offset)

    def _bucket(self, number: int) -> bytes:
        return b"%bseen:%d" % (self._prefix, number)

    def _verdict_key(self, crawl_id: str) -> bytes:
        return b"%bverdict:%b" % (self._prefix, crawl_id.encode())

    def _place(self) -> str:
        """The server's address, without user and password."""
        known = self._client.connection_pool.connection_kwargs
        return str(known.get("path") or f"Redis at {known.get('host')}:{known.get('port')}")


class _MemoryFullError(FrontierUnavailable):
    """Raised when the server refused to start a script because its memory is full: nothing of it happened."""


def _refusal(error: BaseException | None) -> OSError | None:
    """What the system said of a connection that it did not make; None when it was made, or may be in time."""
    while error is not None and not isinstance(error, OSError):
        error = error.__cause__ or error.__context__
    return None if isinstance(error, TimeoutError) else error


def _why(error: RedisError) -> str:
    """In a few words, as the system or the server says it."""
    if isinstance(error, RedisTimeoutError):
        return "no answer in time"
    refusal = _refusal(error)
    if refusal is None:
        said = str(error) or type(error).__name__
    elif refusal.errno and refusal.errno in errorcode and not isinstance(refusal, SSLError):
        said = os.strerror(refusal.errno)  # asyncio says where to, not what
    else:
        said = refusal.strerror or str(refusal)
    return " ".join(said.split())[:_LONGEST_REASON]


def _fault(place: str, said: str) -> str:
    """What a script has found wrong, for people."""
    if said.startswith("DAMAGED "):
        return (
            f"{place}: the keys of the crawl do not agree ({said.removeprefix('DAMAGED ')}), so somebody else "
            "has deleted or changed one; `scrapy queue forget`, and crawl again"
        )
    return f"{place}: {said[:500]!r}"


@contextmanager
def _reading(what: str) -> Iterator[None]:
    """An answer that cannot be read is made of what somebody else has written."""
    try:
        yield
    except (struct_error, ValueError, TypeError, LookupError, AttributeError, OverflowError) as error:
        raise FrontierDamaged(
            f"{what} in Redis cannot be read ({type(error).__name__}), so somebody else has written there; "
            "`scrapy queue forget`, and crawl again"
        ) from error


def _microseconds(seconds: float) -> int:
    return round(min(seconds, LONGEST) * 1_000_000)


def _rows(flat: Sequence[Any], width: int) -> Iterator[tuple[Any, ...]]:
    """The rows of a table that was sent as one flat list."""
    return zip(*[iter(flat)] * width, strict=True)


def _field(reply: Any, name: str) -> str:
    """The value of one field in an answer to INFO or CONFIG GET, in either version of the protocol; "" if
    absent.
    """
    if isinstance(reply, dict):
        fields = reply
    elif isinstance(reply, bytes):
        fields = dict(line.split(b":", 1) for line in reply.splitlines() if b":" in line)
    else:
        fields = dict(_rows(reply, 2))
    for key, value in fields.items():
        if (key.decode() if isinstance(key, bytes) else key) == name:
            return value.decode() if isinstance(value, bytes) else str(value)
    return ""


def _text(encoded: bytes) -> bytes:
    """A text with its length in front."""
    return len(encoded).to_bytes(2, "big") + encoded


def _reason(reason: str) -> bytes:
    """A reason with its length in front, cut to what the length can say."""
    return _text(reason.encode(errors="replace")[:65535])


def _pack_held(held: Iterable[Held]) -> bytes:
    return b"".join([_HELD.pack(one.key, one.token) for one in held])


def _read_keys(packed: bytes) -> list[Key]:
    return [key for (key,) in _KEY.iter_unpack(packed)]


def _read_leases(packed: bytes) -> list[Lease]:
    leases = []
    position = 0
    while position < len(packed):
        key, token, attempt, failures, slot_length, record_length = _LEASE.unpack_from(packed, position)
        slot = position + _LEASE.size
        record = slot + slot_length
        position = record + record_length
        payload = packed[record + _PREFIX_LENGTH : position]
        leases.append(Lease(key, token, attempt, packed[slot:record].decode(), payload, failures))
    return leases


def _read_inbox(reply: Any, outbox: Outbox) -> Inbox:
    """The answer to that outbox."""
    unfinished, next_due, leases, refused, stale, dead_lettered, paces, now, ahead = reply
    return Inbox(
        leases=_read_leases(leases),
        refused=_read_keys(refused),
        stale=[Held(key, token) for key, token in _HELD.iter_unpack(stale)],
        dead_lettered=_read_keys(dead_lettered),
        unfinished=unfinished,
        next_due=None if next_due < 0 else next_due / 1e6,
        now=now / 1e6,
        ahead=ahead / 1e6,
        paces={
            slot: Pace(*known) for slot, known in zip(outbox.paces, _PACE.iter_unpack(paces), strict=True)
        },
    )


def _read_workers(flat: Sequence[Any]) -> list[WorkerStatus]:
    found = (
        WorkerStatus(name.decode(), leased, float(last_seen) / 1e6, read_report(report))
        for name, leased, last_seen, report in _rows(flat, 4)
    )
    return sorted(found, key=lambda status: status.worker)


def _read_status(reply: Any) -> Status:
    crawl_id, cells, past_due, oldest, workers, stale, identity, now = reply
    total = [0] * 5
    slots: dict[str, list[int]] = {}
    callbacks: dict[str, list[int]] = {}
    for slot, callback, *numbers in _rows(cells, 7):
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
        workers=_read_workers(workers),
        stale_messages=stale,
        identity=identity.decode(errors="replace"),
        now=now / 1e6,
    )
