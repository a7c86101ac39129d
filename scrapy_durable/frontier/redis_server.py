"""A Redis server and the keys of one frontier on it: commands and scripts, and what the server says, as errors."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from errno import errorcode
from hashlib import sha1
from importlib.resources import files
from ssl import SSLError
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
    FrontierDamaged,
    FrontierError,
    FrontierLost,
    FrontierRefused,
    FrontierUnavailable,
    OtherRelease,
)
from scrapy_durable.frontier.redis_messages import rows

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
    "logs": "hash",
    "accepted": "zset",
    "reasons": "hash",
}
"""The keys that every script gets, in the order of `lua/keys.lua`, with their types."""

STATE_VERSION = "3"
"""As in `lua/keys.lua`."""
OLDEST_VERSION = (7, 0)
START_TIMEOUT = 10.0
"""Seconds that a server which is there, but does not answer yet, is asked again for at start."""
TRY_AGAIN = ("BUSY", "MASTERDOWN", "CLUSTERDOWN", "TRYAGAIN", "MISCONF", "NOREPLICAS", "UNKILLABLE")
"""Error codes of a server that may do the same thing later."""

_LONGEST_REASON = 200
"""Characters of what the system or the server says that are passed on."""


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


class RedisKeys:
    """The keys `{<prefix>}:…` on a server, which has a client of its own.

    `client` brings its own time-outs, which should be short, since a call lasts as long as they allow; its
    retries are not needed and do no harm.
    """

    def __init__(self, client: Redis, *, prefix: str) -> None:
        self._client = client
        self._prefix = f"{{{prefix}}}:".encode()
        self._fixed = [self._prefix + name.encode() for name in FIXED_KEYS]

    @property
    def fixed(self) -> list[bytes]:
        """Those that every script gets, in their order; a list of one's own."""
        return list(self._fixed)

    def bucket(self, number: int) -> bytes:
        """One of the sets of the seen set."""
        return b"%bseen:%d" % (self._prefix, number)

    def verdict(self, crawl_id: str) -> bytes:
        """Where a crawl's verdict is."""
        return b"%bverdict:%b" % (self._prefix, crawl_id.encode())

    async def run(self, script: Script, keys: Sequence[bytes], arguments: Sequence[str | int | bytes]) -> Any:
        """Call a script by its hash, or by its text when the server does not have it (any more)."""
        try:
            try:
                return await self.command("EVALSHA", script.sha, len(keys), *keys, *arguments)
            except NoScriptError:
                return await self.command("EVAL", script.text, len(keys), *keys, *arguments)
        except NoPermissionError as error:
            raise FrontierRefused(f"{self.place} does not let this user do it: {_why(error)}") from error
        except FrontierDamaged as error:
            if foreign := await self.foreign_keys():
                raise FrontierDamaged(f"{self.place}: {foreign}") from error
            raise

    async def foreign_keys(self) -> str:
        """Which of the keys holds something of another type, put there by somebody else; "" when none does."""
        for key, kind in zip(self._fixed, FIXED_KEYS.values(), strict=True):
            try:
                found = (await self.command("TYPE", key)).decode()
            except NoPermissionError as error:
                raise FrontierRefused(f"{self.place} does not let this user do it: {_why(error)}") from error
            if found not in (kind, "none"):
                return f"the key {key.decode()} is a {found}, not a {kind}, so somebody else has put it there"
        return ""

    async def command(self, *words: str | int | bytes) -> Any:
        """Send a command; raises the project's errors, but for those that the callers here know what to do
        about.
        """
        try:
            return await self._client.execute_command(*words, NEVER_DECODE=True)  # type: ignore[no-untyped-call]
        except (NoScriptError, NoPermissionError):
            raise
        except (AuthenticationError, AuthorizationError) as error:
            raise FrontierRefused(f"{self.place} refuses the user or password") from error
        except OutOfMemoryError as error:
            raise MemoryFull(f"the memory of {self.place} is full") from error
        except (RedisConnectionError, RedisTimeoutError, ReadOnlyError) as error:
            raise FrontierUnavailable(f"{self.place} does not answer: {_why(error)}") from error
        except ResponseError as error:
            if str(error).startswith("RELEASE "):
                raise self.other_release(str(error).split()[1]) from error
            if str(error).startswith("LOST"):
                raise FrontierLost(f"the crawl is gone from {self.place}") from error
            if "ACL failure in script" in str(error) or "user executing the script" in str(error):
                raise FrontierRefused(f"{self.place} does not let this user do it: {_why(error)}") from error
            if str(error).startswith(TRY_AGAIN):
                raise FrontierUnavailable(f"{self.place} cannot do it now: {error}") from error
            raise FrontierDamaged(_fault(self.place, str(error))) from error
        except RedisError as error:
            raise FrontierError(f"{self.place}: {error}") from error

    async def check(self) -> None:
        """Look whether the server is fit, and join nothing. One that loads its data or is slow is asked again for
        `START_TIMEOUT` seconds; one that is not there, not at all.
        """
        until = time.monotonic() + START_TIMEOUT
        while True:
            try:
                return await self.inspect()
            except FrontierUnavailable as error:
                if _refusal(error) is not None or time.monotonic() >= until:
                    raise
            await asyncio.sleep(0.2)

    async def inspect(self) -> None:
        """Raise `ConfigurationError` for a server that would lose what it is given; warn of one that may."""
        try:
            version, policy, append_only = await self._read_server()
        except FrontierRefused as error:
            raise ConfigurationError(str(error)) from error
        except NoPermissionError:
            logger.warning(
                "%s does not show its configuration: whether it evicts keys is not known", self.place
            )
            return
        if version < OLDEST_VERSION:
            raise ConfigurationError(f"{self.place} is older than Redis 7.0")
        if policy != "noeviction":
            raise ConfigurationError(
                f"{self.place} has maxmemory-policy {policy}, which throws requests away when it is full; "
                "set it to noeviction"
            )
        if append_only == "no":
            logger.warning(
                "%s has no append-only file: what it holds is lost when it is killed (set appendonly to yes)",
                self.place,
            )

    async def _read_server(self) -> tuple[tuple[int, ...], str, str]:
        """Version, eviction policy, and "yes" or "no" for the append-only file."""
        info = await self.command("INFO", "server")
        version = _field(info, "redis_version")
        policy = await self.command("CONFIG GET", "maxmemory-policy")
        append_only = await self.command("CONFIG GET", "appendonly")
        numbers = tuple(int(part) for part in version.split(".")[:2])
        return numbers, _field(policy, "maxmemory-policy"), _field(append_only, "appendonly")

    async def refuse_other_release(self) -> None:
        """Raise `OtherRelease` for a crawl of another version, whatever its other keys are."""
        if await self.command("TYPE", self._fixed[0]) == b"hash":
            crawl_id, version = await self.command("HMGET", self._fixed[0], "id", "version")
            if crawl_id is not None and version != STATE_VERSION.encode():
                raise self.other_release("0" if version is None else version.decode(errors="replace"))

    def other_release(self, found: str) -> OtherRelease:
        """The error that there is a crawl of version `found`."""
        shown = found if found.isascii() and found.isdigit() and len(found) < 10 else "?"
        return OtherRelease(self.place, shown, STATE_VERSION, "give it up with 'scrapy queue forget'")

    @property
    def place(self) -> str:
        """The server's address, without user and password."""
        known = self._client.connection_pool.connection_kwargs
        return str(known.get("path") or f"Redis at {known.get('host')}:{known.get('port')}")

    async def close(self) -> None:
        """Close the client's connections."""
        await self._client.aclose()


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


def _field(reply: Any, name: str) -> str:
    """The value of one field in an answer to INFO or CONFIG GET, in either version of the protocol; "" if
    absent.
    """
    if isinstance(reply, dict):
        fields = reply
    elif isinstance(reply, bytes):
        fields = dict(line.split(b":", 1) for line in reply.splitlines() if b":" in line)
    else:
        fields = dict(rows(reply, 2))
    for key, value in fields.items():
        if (key.decode() if isinstance(key, bytes) else key) == name:
            return value.decode() if isinstance(value, bytes) else str(value)
    return ""
