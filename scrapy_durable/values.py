"""Values of settings, read by name and checked: one that is not acceptable is refused with a `ConfigurationError`."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, TypeVar

import orjson

from scrapy_durable.exceptions import ConfigurationError

if TYPE_CHECKING:
    from scrapy.settings import BaseSettings

_SHORTEST_KEY = 32
_Number = TypeVar("_Number", int, float)


class Values:
    """The values of some settings, and what they are where nobody has set them.

    Each method raises `ConfigurationError` with the name of the setting and what is needed instead.
    """

    def __init__(self, settings: BaseSettings, defaults: Mapping[str, object]) -> None:
        self._settings = settings
        self._defaults = defaults

    def __getitem__(self, name: str) -> object:
        return self._settings[name] if name in self._settings else self._defaults.get(name)

    def whole(self, name: str, low: int, high: int) -> int:
        """An integer within bounds, both included."""
        return self._number(name, int, low, high)

    def fraction(self, name: str, low: float, high: float = math.inf) -> float:
        """A number within bounds, both included; seconds, unless the setting says otherwise."""
        return self._number(name, float, low, high)

    def text(self, name: str) -> str:
        """A string without white space around it, perhaps an empty one."""
        return str(self[name] or "").strip()

    def switch(self, name: str) -> bool:
        """True or False, in any of the ways in which Scrapy's own settings are written."""
        match self[name]:
            case bool(value):
                return value
            case None | "" | 0 | "0" | "False" | "false":
                return False
            case 1 | "1" | "True" | "true":
                return True
            case value:
                raise ConfigurationError(f"{name}: True or False is needed, not {value!r}")

    def several(self, name: str) -> tuple[str, ...]:
        """A list, or a string whose values are separated by commas or white space."""
        value = self[name]
        if isinstance(value, list | tuple):
            return tuple(str(item) for item in value)
        return tuple(str(value or "").replace(",", " ").split())

    def words(self, name: str) -> tuple[str, ...]:
        """A list, or a string whose values are separated by white space alone: addresses may hold commas."""
        value = self[name]
        values = value if isinstance(value, list | tuple) else str(value or "").split()
        return tuple(str(item) for item in values if str(item))

    def bounds(self, name: str, known: Mapping[str, float]) -> dict[str, float]:
        """Numbers from 0 by the known names, as a dictionary or in JSON, those known for what is not named; without
        what is None.
        """
        value = self[name]
        try:
            found = orjson.loads(value) if isinstance(value, str | bytes) else dict(value or {})  # type: ignore[call-overload]
        except (orjson.JSONDecodeError, TypeError, ValueError):
            found = None
        if not isinstance(found, dict):
            raise ConfigurationError(f"{name}: an object of numbers in JSON is needed, not {value!r}")
        for key, bound in found.items():
            if key not in known:
                raise ConfigurationError(f"{name}: there is no {key!r}, but {', '.join(known)}")
            if bound is not None and (type(bound) not in (int, float) or not 0 <= bound < math.inf):
                raise ConfigurationError(f"{name}: {key} has to be a number from 0, or null, not {bound!r}")
        return {key: bound for key, bound in {**known, **found}.items() if bound is not None}

    def secret(self, name: str) -> str:
        """A key, or "" for none; the message does not repeat it."""
        secret = str(self[name] or "")
        if secret and len(secret) < _SHORTEST_KEY:
            raise ConfigurationError(
                f"{name}: a key has {_SHORTEST_KEY} characters or more; `openssl rand -hex 32` makes one"
            )
        return secret

    def mapping(self, name: str) -> dict[str, str]:
        """Names by names, as a dictionary or in JSON."""
        value = self[name]
        try:
            found = orjson.loads(value) if isinstance(value, str | bytes) else dict(value or {})  # type: ignore[call-overload]
        except (orjson.JSONDecodeError, TypeError, ValueError):
            found = None
        if not isinstance(found, dict) or not all(
            type(text) is str for pair in found.items() for text in pair
        ):
            raise ConfigurationError(f"{name}: an object of names in JSON is needed, not {value!r}")
        return found

    def one_of(self, name: str, *known: str) -> str:
        """One of the known words."""
        value = self[name]
        if value not in known:
            raise ConfigurationError(f"{name}: must be {' or '.join(known)}, not {value!r}")
        return str(value)

    def _number(self, name: str, kind: Callable[[str], _Number], low: _Number, high: _Number) -> _Number:
        value = self[name]
        try:
            number = kind(str(value))
        except ValueError:
            raise ConfigurationError(f"{name}: a number is needed, not {value!r}") from None
        if not low <= number <= high:
            bounds = f"at least {low}" if high == math.inf else f"from {low} to {high}"
            raise ConfigurationError(f"{name}: must be {bounds}, not {value!r}")
        return number
