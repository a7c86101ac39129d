"""The address of a MongoDB: what `MONGO_URI` comes to."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import unquote_plus

from pymongo import AsyncMongoClient, WriteConcern, errors
from pymongo.uri_parser import split_options

from carscraper.stores.readings import one_line
from scrapy_durable.exceptions import ConfigurationError

_DEFAULTS = {
    "appname": "carscraper",
    "serverSelectionTimeoutMS": 5_000,
    "connectTimeoutMS": 5_000,
    "socketTimeoutMS": 30_000,
}
"""Options of the connection, unless the URI says otherwise."""
_SURE_MAJORITY = 4
"""So many servers are a majority of any set, since at most seven vote."""


def connect(uri: str) -> tuple[AsyncMongoClient[dict[str, Any]], str, str]:
    """A client, which connects to nothing yet, the name of the database, and where it is without user and password.

    Raises `ConfigurationError`, whose message tells nothing out of the URI but names of options.
    """
    scheme, hosts, name, options = _parts(uri)
    given = {option.partition("=")[0].lower() for option in options}
    defaults: dict[str, Any] = {key: _DEFAULTS[key] for key in _DEFAULTS if key.lower() not in given}
    try:
        if scheme not in ("mongodb", "mongodb+srv") or "." in name:
            raise ValueError(_NO_ADDRESS)
        with _strict():
            client: AsyncMongoClient[dict[str, Any]] = AsyncMongoClient(uri, **defaults)
    except _WRONG as error:
        raise ConfigurationError(f"MONGO_URI: {_complaint(error, uri)}") from None
    database = client.get_default_database(default="cars").name
    return client, database, f"{hosts}/{database}"


def durable(asked: WriteConcern) -> WriteConcern:
    """The journals of a majority, or of more, or of the servers behind a name, when those are asked for."""
    servers = asked.document.get("w")
    enough = isinstance(servers, str) or (isinstance(servers, int) and servers >= _SURE_MAJORITY)
    return WriteConcern(w=servers if enough else "majority", j=True, wtimeout=asked.document.get("wtimeout"))


def _parts(uri: str) -> tuple[str, str, str, list[str]]:
    """Scheme, servers with their ports, path, and options `name=value` of a URI; not to be shown if it is wrong."""
    scheme, _, rest = uri.partition("://")
    rest, _, query = rest.partition("?")
    authority, _, path = rest.partition("/")
    hosts = authority.rpartition("@")[2].lower()
    if scheme == "mongodb":
        named = hosts.split(",")
        hosts = ",".join(host if re.search(r":\d+$|\.sock$", host) else f"{host}:27017" for host in named)
    return scheme, hosts, path, [option for option in re.split("[&;]", query) if option]


_WRONG = (errors.PyMongoError, ValueError, TypeError, OSError, UserWarning)
"""What pymongo raises for an address that is none, when it is strict."""


@contextmanager
def _strict() -> Iterator[None]:
    """Has pymongo raise what it would only warn of, such as an option that it does not know."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        yield


_NO_ADDRESS = "not an address such as mongodb://127.0.0.1:27017/cars"


def _complaint(error: Exception, uri: str) -> str:
    """What is wrong with a URI: an option by its name, or what pymongo says unless that quotes the URI."""
    names = set()
    if "@" not in uri.partition("?")[2]:  # else what looks like an option may be half a password
        for option in _parts(uri)[3]:
            name = option.partition("=")[0]
            names.add(name)
            try:
                with _strict():
                    split_options(option)
            except errors.ConfigurationError:
                return f"there is no option {name!r}, or it has no value"
            except _WRONG:
                return f"the option {name!r} cannot have that value"
    values = set(re.split(r"[:/?#@&;=,\[\]]", uri.partition("://")[2] or uri)) - names - {""}
    if any(quoted in str(error) for value in values for quoted in (value, unquote_plus(value))):
        return _NO_ADDRESS
    return one_line(error)
