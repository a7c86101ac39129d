"""A Redis server and the keys of one frontier on it: commands and scripts, and what the server says, as errors."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Iterable, Sequence
from errno import errorcode
from ssl import SSLError
from typing import Any

from redis.asyncio import Redis
from redis.exceptions import (
    AskError,
    AuthenticationError,
    AuthorizationError,
    ClusterCrossSlotError,
    InvalidResponse,
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
    FrontierDamaged,
    FrontierError,
    FrontierLost,
    FrontierRefused,
    FrontierUnavailable,
    OtherRelease,
)
from scrapy_durable.frontier.redis_fitness import LEAST_ENTRIES, field, other_kind
from scrapy_durable.frontier.redis_layout import FIXED_KEYS, STATE_VERSION
from scrapy_durable.frontier.redis_scripts import Call, Script

logger = logging.getLogger(__name__)

START_TIMEOUT = 10.0
"""Seconds that a server which is there, but does not answer yet, is asked again for at start."""
TRY_AGAIN = ("BUSY", "MASTERDOWN", "CLUSTERDOWN", "TRYAGAIN", "MISCONF", "NOREPLICAS", "UNKILLABLE")
"""Error codes of a server that may do the same thing later."""

_NOT_TOLD = (NoPermissionError, FrontierRefused)
"""What a hosted server answers to a question about itself."""
_LONGEST_REASON = 200
"""Characters of what the system or the server says that are passed on."""


class RedisConnection:
    """Commands to a server, and what it says, as errors."""

    def __init__(self, client: Redis) -> None:
        self._client = client
        self._is_known = False
        """Which kind of server it is has been seen."""

    async def command(self, *words: str | int | bytes) -> Any:
        """Send a command; raises the project's errors, but for those that the callers here know what to do
        about. With the first one, `ConfigurationError` for a server of a kind that can hold no crawl.
        """
        if not self._is_known:
            info, answer = await self.together([("INFO",), words])
            self._refuse_other_kinds(info)
            if isinstance(answer, Exception):
                raise answer
            return answer
        try:
            return await self._client.execute_command(*words, NEVER_DECODE=True)  # type: ignore[no-untyped-call]
        except (NoScriptError, NoPermissionError):
            raise
        except RedisError as error:
            raise self._as_ours(error) from error

    async def together(self, commands: Iterable[Sequence[str | int | bytes]]) -> list[Any]:
        """Send several commands at once, for one round trip: the answer of each, or the error that `command` would have
        raised.
        """
        pipeline = self._client.pipeline(transaction=False)
        for words in commands:
            pipeline.execute_command(*words, NEVER_DECODE=True)
        try:
            answers = await pipeline.execute(raise_on_error=False)
        except NoPermissionError:
            raise
        except RedisError as error:
            raise self._as_ours(error) from error
        return [self._as_ours(answer) if isinstance(answer, RedisError) else answer for answer in answers]

    def _as_ours(self, error: RedisError) -> Exception:
        """The error of the project that it is; itself, where the callers here know what to do about it."""
        said = str(error)
        if isinstance(error, NoScriptError | NoPermissionError):
            return error
        if isinstance(error, AuthenticationError | AuthorizationError):
            return FrontierRefused(f"{self.place} refuses the user or password")
        if isinstance(error, OutOfMemoryError):
            return MemoryFull(f"the memory of {self.place} is full")
        if isinstance(error, AskError | ClusterCrossSlotError):
            return FrontierRefused(f"{self.place} {other_kind({'redis_mode': 'cluster'})}")
        if isinstance(error, InvalidResponse):
            return FrontierRefused(
                f"what answers as {self.place} is no Redis: give REDIS_URL the address of one"
            )
        if isinstance(error, RedisConnectionError | RedisTimeoutError | ReadOnlyError):
            return FrontierUnavailable(f"{self.place} does not answer: {_why(error)}")
        if not isinstance(error, ResponseError):
            return FrontierError(f"{self.place}: {error}")
        if said.startswith("RELEASE "):
            return other_release(self.place, said.split()[1])
        if said.startswith("LOST"):
            return FrontierLost(f"the crawl is gone from {self.place}")
        if "ACL failure in script" in said or "user executing the script" in said:
            return FrontierRefused(f"{self.place} does not let this user do it: {_why(error)}")
        if said.startswith(("unknown command", "ERR unknown command")):
            return FrontierRefused(f"{self.place} lacks a command that is needed: {_why(error)}")
        if said.startswith(TRY_AGAIN):
            return FrontierUnavailable(f"{self.place} cannot do it now: {error}")
        return FrontierDamaged(_fault(self.place, said))

    def _refuse_other_kinds(self, info: Any) -> None:
        """A server that does not tell is taken as it is."""
        if not isinstance(info, _NOT_TOLD):
            if isinstance(info, Exception):
                raise info
            if problem := other_kind(info):
                raise ConfigurationError(f"{self.place} {problem}")
        self._is_known = True

    @property
    def place(self) -> str:
        """The server's address, without user and password."""
        known = self._client.connection_pool.connection_kwargs
        return str(known.get("path") or f"Redis at {known.get('host')}:{known.get('port')}")

    async def close(self) -> None:
        """Close the client's connections."""
        await self._client.aclose()


class RedisKeys(RedisConnection):
    """The keys `{<prefix>}:…` on a server, which has a client of its own.

    `client` brings its own time-outs, which should be short, since a call lasts as long as they allow; its
    retries are not needed and do no harm.
    """

    def __init__(self, client: Redis, *, prefix: str) -> None:
        super().__init__(client)
        self._prefix = f"{{{prefix}}}:".encode()
        self._fixed = [self._prefix + name.encode() for name in FIXED_KEYS]
        self._not_loaded: list[Script] = []
        """Scripts that the server is given with the next call of one."""

    @property
    def fixed(self) -> list[bytes]:
        """Those that every script gets, in their order; a list of one's own."""
        return list(self._fixed)

    def firsts(self, number: int) -> bytes:
        """One of the hashes with claims to items."""
        return b"%bfirsts:%d" % (self._prefix, number)

    def verdict(self, crawl_id: str) -> bytes:
        """Where a crawl's verdict is."""
        return b"%bverdict:%b" % (self._prefix, crawl_id.encode())

    async def run(self, script: Script, keys: Sequence[bytes], arguments: Sequence[str | int | bytes]) -> Any:
        """Call a script by its hash, or by its text when the server does not have it (any more)."""
        try:
            try:
                return await self._load_and_call("EVALSHA", script.sha, len(keys), *keys, *arguments)
            except NoScriptError:
                return await self.command("EVAL", script.text, len(keys), *keys, *arguments)
        except NoPermissionError as error:
            raise FrontierRefused(f"{self.place} does not let this user do it: {_why(error)}") from error
        except FrontierDamaged as error:
            if foreign := await self.foreign_keys():
                raise FrontierDamaged(f"{self.place}: {foreign}") from error
            raise

    async def _load_and_call(self, *words: str | int | bytes) -> Any:
        """Call a script; the first time with those that the server does not have, for one round trip."""
        if not self._not_loaded:
            return await self.command(*words)
        loads = [("SCRIPT LOAD", script.text) for script in self._not_loaded]
        self._not_loaded = []
        *_, answer = await self.together([*loads, words])
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def run_all(self, script: Script, calls: Sequence[Call]) -> list[Any]:
        """Call a script several times, for one round trip; returns the answers."""
        evals = (("EVALSHA", script.sha, len(keys), *keys, *arguments) for keys, arguments in calls)
        _, *answers = await self.together([("SCRIPT LOAD", script.text), *evals])
        for number, (keys, arguments) in enumerate(calls):
            if isinstance(answers[number], NoScriptError | NoPermissionError):
                answers[number] = await self.run(script, keys, arguments)  # which knows what to do about it
            elif isinstance(answers[number], Exception):
                raise answers[number]
        return answers

    async def run_in_turn(
        self, calls: Sequence[tuple[Script, Sequence[bytes], Sequence[str | int | bytes]]]
    ) -> list[Any]:
        """Call scripts one after the other, for one round trip; returns the answers."""
        answers = await self.together(
            ("EVALSHA", script.sha, len(keys), *keys, *arguments) for script, keys, arguments in calls
        )
        if not any(isinstance(answer, Exception) for answer in answers):
            return answers
        return [await self.run(*call) for call in calls]  # which knows what to do about it

    async def foreign_keys(self) -> str:
        """Which of the keys holds something of another type, put there by somebody else; "" when none does."""
        return self._foreign_among(await self.together([("TYPE", key) for key in self._fixed]))

    def _foreign_among(self, types: Sequence[Any]) -> str:
        for key, kind, found in zip(self._fixed, FIXED_KEYS.values(), types, strict=True):
            if isinstance(found, NoPermissionError):
                raise FrontierRefused(f"{self.place} does not let this user do it: {_why(found)}") from found
            if isinstance(found, Exception):
                raise found
            if found.decode() not in (kind, "none"):
                return f"the key {key.decode()} is a {found.decode()}, not a {kind}, so somebody else has put it there"
        return ""

    async def check(self) -> None:
        """Look whether the server is fit, and join nothing. One that loads its data or is slow is asked again for
        `START_TIMEOUT` seconds; one that is not there, not at all.
        """
        until = time.monotonic() + START_TIMEOUT
        while True:
            try:
                await self.inspect()
            except FrontierUnavailable as error:
                if _refusal(error) is not None or time.monotonic() >= until:
                    raise
            else:
                return
            await asyncio.sleep(0.2)

    async def inspect(self, scripts: Sequence[Script] = ()) -> Any:
        """Raise `ConfigurationError` for a server that can hold no crawl, would lose what it is given, or has something
        else under the keys, and `OtherRelease`; warn of one that may lose it. One round trip. Those of the scripts
        that it does not have, it is given with the next call of one. Returns what it answers to TIME, or that error.
        """
        try:
            info, known, policy, append_only, entries, now, *types = await self.together(
                [
                    ("INFO",),
                    ("SCRIPT EXISTS", *(script.sha for script in scripts)) if scripts else ("PING",),
                    ("CONFIG GET", "maxmemory-policy"),
                    ("CONFIG GET", "appendonly"),
                    ("CONFIG GET", "set-max-intset-entries"),
                    ("TIME",),
                    *(("TYPE", key) for key in self._fixed),
                ]
            )
            self._refuse_other_kinds(info)
            if any(isinstance(answer, _NOT_TOLD) for answer in (info, policy, append_only, entries)):
                logger.warning(
                    "%s does not show its configuration: whether it evicts keys is not known", self.place
                )
            else:
                self._refuse_eviction(policy, append_only)
                self._refuse_small_sets(entries)
            if foreign := self._foreign_among(types):
                await self._refuse_other_release(types[0])
                raise ConfigurationError(f"{self.place}: {foreign}")
            if isinstance(known, list):  # else it does not tell, and is given each when it is called
                there = zip(scripts, known, strict=True)
                self._not_loaded = [script for script, is_loaded in there if not is_loaded]
        except FrontierRefused as error:
            raise ConfigurationError(str(error)) from error
        return now

    def _refuse_eviction(self, policy: Any, append_only: Any) -> None:
        for answer in (policy, append_only):
            if isinstance(answer, Exception):
                raise answer
        if (name := field(policy, "maxmemory-policy")) != "noeviction":
            raise ConfigurationError(
                f"{self.place} has maxmemory-policy {name}, which throws requests away when it is full; "
                "set it to noeviction"
            )
        if field(append_only, "appendonly") == "no":
            logger.warning(
                "%s has no append-only file: what it holds is lost when it is killed (set appendonly to yes)",
                self.place,
            )

    def _refuse_small_sets(self, entries: Any) -> None:
        if isinstance(entries, Exception):
            raise entries
        most = field(entries, "set-max-intset-entries")
        if most.isdigit() and int(most) < LEAST_ENTRIES:
            raise ConfigurationError(
                f"{self.place} has set-max-intset-entries {most}, with which each request that is done takes ten times "
                f"the memory; set it to {LEAST_ENTRIES}, its default"
            )

    async def _refuse_other_release(self, kind: bytes) -> None:
        """Raise `OtherRelease` for a crawl of another version, whatever its other keys are; `kind` of its first key."""
        if kind == b"hash":
            crawl_id, version = await self.command("HMGET", self._fixed[0], "id", "version")
            if crawl_id is not None and version != STATE_VERSION.encode():
                raise other_release(self.place, "0" if version is None else version.decode(errors="replace"))


class MemoryFull(FrontierUnavailable):
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


def other_release(place: str, found: str) -> OtherRelease:
    """The error that there is a crawl of version `found`."""
    shown = found if found.isascii() and found.isdigit() and len(found) < 10 else "?"
    return OtherRelease(place, shown, STATE_VERSION, "give it up with 'scrapy queue forget'")
