"""The connection to Redis, made by scrapy-redis from its own settings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scrapy.settings import Settings

from scrapy_durable.exceptions import ConfigurationError

if TYPE_CHECKING:
    from redis.asyncio import Redis
    from scrapy.settings import BaseSettings

_READ_BY_SCRAPY_REDIS = ("REDIS_URL", "REDIS_HOST", "REDIS_PORT", "REDIS_DB", "REDIS_ENCODING")
_TIMEOUT = 5.0
"""Seconds until a Redis that does not answer counts as unavailable, unless `REDIS_PARAMS` says otherwise."""


def redis_client(settings: BaseSettings) -> Redis | None:
    """A client as `REDIS_URL` and `REDIS_PARAMS` say; None when `REDIS_URL` is not set.

    Raises `ConfigurationError` for a URL that is none, and where the packages for Redis are not installed. The message
    does not repeat the URL, since it may hold a password.
    """
    if not settings.get("REDIS_URL"):
        return None
    # Here, since most crawls need none of it, and it takes a twentieth of their start.
    try:
        from redis.asyncio import Redis
        from scrapy_redis import connection
    except ImportError as error:
        raise ConfigurationError(
            "REDIS_URL: it needs what the extra redis brings; install it with: pip install redis scrapy-redis"
        ) from error

    given = settings.getdict("REDIS_PARAMS")
    nobody: dict[str, None] = {"lib_name": None, "lib_version": None}
    if "driver_info" in Redis.__init__.__annotations__:  # where it is None, the two others are not looked at
        nobody = {} if given.keys() & nobody else {"driver_info": None}
    params = {
        # Nothing is said and waited for before the first command, but user, password and database.
        "protocol": 2,
        **nobody,
        "socket_timeout": _TIMEOUT,
        "socket_connect_timeout": _TIMEOUT,
        **given,
        "redis_cls": Redis,
        "decode_responses": False,
    }
    asked = Settings({"REDIS_PARAMS": params})
    asked.setdict({name: settings.get(name) for name in _READ_BY_SCRAPY_REDIS})
    try:
        client: Redis = connection.from_settings(asked)
    except ValueError as error:
        raise ConfigurationError("REDIS_URL: not a URL such as redis://127.0.0.1:6379/0") from error
    return client
