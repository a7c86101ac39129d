"""The address of a PostgreSQL: what `POSTGRES_DSN` comes to."""

from __future__ import annotations

from typing import Any

import psycopg
from psycopg import pq
from psycopg.conninfo import conninfo_to_dict

from scrapy_durable.exceptions import ConfigurationError

_DEFAULTS = {
    "application_name": "carscraper",
    "connect_timeout": "5",
    "keepalives": "1",
    "keepalives_idle": "30",
    "keepalives_interval": "10",
    "keepalives_count": "3",
}
"""Parameters of the connection, unless the DSN says otherwise."""


def parse(dsn: str) -> tuple[dict[str, Any], str]:
    """Parameters of the connection, and where it leads to without user and password.

    Raises `ConfigurationError`, whose message tells nothing out of the DSN.
    """
    try:
        given = conninfo_to_dict(dsn)
    except psycopg.ProgrammingError:
        raise ConfigurationError(
            "POSTGRES_DSN: not an address such as postgresql://user:password@host:5432/cars, "
            "or host=… dbname=…"
        ) from None
    return {**_DEFAULTS, **given, "client_encoding": "UTF8"}, _target(given)


def _target(given: dict[str, Any]) -> str:
    """Hosts with ports, and the database; raises `ConfigurationError` for what libpq accepts and is none."""
    known = {
        option.keyword.decode(): option.val.decode() for option in pq.Conninfo.get_defaults() if option.val
    }
    known |= {key: str(value) for key, value in given.items() if value}
    hosts = known.get("host") or known.get("hostaddr") or known.get("service") or "localhost"
    ports = known.get("port", "5432")
    database = known.get("dbname", "")
    if not database and "service" not in known:
        raise ConfigurationError(
            "POSTGRES_DSN: the name of a database is needed, as in postgresql://host/cars"
        )
    if "@" in hosts + database or not all(_is_port(port) for port in ports.split(",")):
        raise ConfigurationError(
            "POSTGRES_DSN: host, port and database cannot be told apart; in a URL, write odd characters of a "
            "password as %XX"
        )
    try:
        hosts.encode("idna")
    except UnicodeError:
        raise ConfigurationError("POSTGRES_DSN: its host is no name") from None
    names = hosts.split(",")
    numbers = ports.split(",") if "," in ports else [ports] * len(names)
    places = (f"{name}:{number or 5432}" for name, number in zip(names, numbers, strict=False))
    return f"{','.join(places)}/{database}"


def _is_port(text: str) -> bool:
    return not text or (text.isascii() and text.isdigit() and 0 < int(text) < 65536)
