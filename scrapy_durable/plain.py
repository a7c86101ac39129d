"""What others wrote, as logs, terminals and `run.json` show it: nothing that a terminal obeys, and no password.

A site, a queue, a file name can hold characters that move the cursor, hide text or begin a line that nobody wrote. Each
border to people has its one way through here: `show_plainly` has all log records made plain, whoever logs them; `show`
is for what commands print; `plain_json` for documents.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Mapping
from typing import IO, TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

import orjson

if TYPE_CHECKING:
    from scrapy.settings import BaseSettings

_OBEYED = (
    "\x00-\x1f\x7f-\x9f"  # controls, among them escape, line feed and CSI
    "\u061c\u200b\u200e\u200f\u202a-\u202e\u2060-\u2069\ufeff\ufff9-\ufffb"  # direction, and what nobody sees
    "\u2028\u2029"  # ends of lines
    "\ud800-\udfff"  # halves of characters, which no stream can encode
    "\U000e0000-\U000e007f"  # tags
)
_SPECIAL = re.compile(f"[{_OBEYED}]")
_SPECIAL_BUT_NEWLINES = re.compile(f"[{_OBEYED}]".replace("\x00-\x1f", "\x00-\x09\x0b-\x1f"))

_HIDDEN = "***"
_USER = re.compile(r"(://)[^\s'\"/?#]*@")
"""User and password of a URL, and of each server of one that names several."""
_ASSIGNED = re.compile(
    r"((?i:\b|_)(?i:password|passwd|pwd|secret|token|secret_access_key|api_?key)['\"]?\s*(?:=|:(?=\s*['\"]))\s*)"
    r"('[^']*'|\"[^\"]*\"|[^\s,;&'\"}\])]+)"
)
"""A value that is given to such a name, as in a DSN, a query, a dictionary that was printed."""
_SHORTEST = 4
"""Characters of a password that is looked for wherever it stands; a shorter one is part of many words."""

_secrets: set[str] = set()


def plain(text: str) -> str:
    """One line of text, with what a terminal would obey written as Python writes it, and passwords replaced."""
    return _SPECIAL.sub(_escaped, without_secrets(text))


def without_secrets(text: str) -> str:
    """The text with `***` for users and passwords in addresses, and for passwords that the settings hold."""
    text = _ASSIGNED.sub(_assigned, _USER.sub(rf"\1{_HIDDEN}@", text))
    for secret in _secrets:
        text = text.replace(secret, _HIDDEN)
    return text


def plain_json(document: object, option: int = 0) -> bytes:
    """As `orjson.dumps`, but with everything as `\\uXXXX` that a terminal would obey; the same document when read back.

    Addresses in it have no user or password.
    """
    text = orjson.dumps(_clean(document), option=option).decode()
    return _SPECIAL_BUT_NEWLINES.sub(_as_json, text).encode()


def _clean(value: Any) -> Any:
    if isinstance(value, str):
        return without_secrets(value)
    if isinstance(value, Mapping):
        return {without_secrets(str(key)): _clean(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_clean(inner) for inner in value]
    return value


def show(stream: IO[str], *lines: str) -> None:
    """Write lines to a terminal, or whatever stands in its place."""
    stream.writelines(f"{plain(line)}\n" for line in lines)


def plain_table(pieces: Iterable[bytes]) -> Iterable[bytes]:
    """Whole lines of a table for a terminal."""
    for piece in pieces:
        yield _SPECIAL_BUT_NEWLINES.sub(_escaped, piece.decode()).encode()


def show_plainly(settings: BaseSettings) -> None:
    """From now on every log record of this process is plain, through whatever handler and formatter it goes.

    A line that continues a record, as of a traceback, is indented: only what we log begins at the margin.
    """
    _secrets.update(secret for secret in _passwords(settings) if len(secret) >= _SHORTEST)
    logging.setLogRecordFactory(_PlainRecord)


class _PlainRecord(logging.LogRecord):
    """A record whose texts are plain: the message, the traceback, the stack."""

    def getMessage(self) -> str:  # noqa: N802 (logging's name)
        return _lines(super().getMessage())

    # Formatters keep the text of a traceback here, for the next one.

    @property
    def exc_text(self) -> str | None:
        return self._exc_text

    @exc_text.setter
    def exc_text(self, text: str | None) -> None:
        self._exc_text = text if text is None else "  " + _lines(text)

    @property
    def stack_info(self) -> str | None:
        return self._stack_info

    @stack_info.setter
    def stack_info(self, text: str | None) -> None:
        self._stack_info = text if text is None else "  " + _lines(text)


def _lines(text: str) -> str:
    first, *others = without_secrets(text).split("\n")
    return "\n".join(
        [_SPECIAL.sub(_escaped, first), *("  " + _SPECIAL.sub(_escaped, line) for line in others)]
    )


def _passwords(settings: BaseSettings) -> Iterable[str]:
    values = [settings[name] for name in settings if name != "FEEDS"]
    texts = [text for value in values for text in (value if isinstance(value, list | tuple) else [value])]
    for text in map(str, [*filter(_is_address, texts), *settings.getdict("FEEDS")]):
        for part in re.split(r"[\s,]+(?=\w+://)", text):
            yield from _password_of(part)
    yield str(settings.get("DURABLE_QUEUE_KEY") or "")
    yield str(settings.get("DURABLE_DASHBOARD_TOKEN") or "")
    yield from _of_addresses(settings.get("DURABLE_NOTIFY"))
    parameters = settings.getdict("REDIS_PARAMS")
    if isinstance(parameters, Mapping) and parameters.get("password"):
        yield str(parameters["password"])


def _of_addresses(value: object) -> Iterable[str]:
    """Whom to tell: all of an address but its kind may be a token."""
    addresses = value if isinstance(value, list | tuple) else str(value or "").split()
    for address in map(str, addresses):
        yield address
        yield address.partition("://")[2]


def _is_address(value: object) -> bool:
    """Whether a setting's value may hold a user and a password, whatever it is for."""
    return isinstance(value, str) and "://" in value and "@" in value


def _password_of(address: str) -> Iterable[str]:
    try:
        password = urlsplit(address).password
    except ValueError:
        password = None
    # What is no URL to Python, since a `/` or `#` in the password was not escaped, still has one before its last `@`.
    written = address.partition("://")[2].rpartition("@")[0].partition(":")[2]
    for found in (password, written, re.split(r"[/?#]", written)[0]):
        if found:
            yield from (found, unquote(found))
    for assigned in re.finditer(r"password\s*=\s*('(?:[^'\\]|\\.)*'|[^\s&]+)", address):
        yield assigned[1].strip("'")


def _assigned(match: re.Match[str]) -> str:
    quote = match[2][0] if match[2][0] in "'\"" else ""
    return f"{match[1]}{quote}{_HIDDEN}{quote}"


def _escaped(match: re.Match[str]) -> str:
    return match[0].encode("unicode_escape").decode()


def _as_json(match: re.Match[str]) -> str:
    units = match[0].encode("utf-16-be")
    return "".join(f"\\u{units[at] << 8 | units[at + 1]:04x}" for at in range(0, len(units), 2))
