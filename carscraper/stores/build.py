"""Which databases records go to: those whose address is set."""

from __future__ import annotations

from typing import TYPE_CHECKING

from carscraper.exceptions import ConfigurationError

if TYPE_CHECKING:
    from scrapy.settings import BaseSettings

    from carscraper.stores.contract import Database

SETTINGS = {"mongo": "MONGO_URI", "postgres": "POSTGRES_DSN"}
"""A database's key, and the setting that holds its address."""


def build_database(settings: BaseSettings, key: str) -> Database | None:
    """The database of that key, not opened yet; None when its address is not set.

    A driver is loaded only when it is needed. Raises `ConfigurationError` for an address that is none; the
    message does not repeat it, since it may hold a password.
    """
    if key not in SETTINGS:
        raise ConfigurationError(f"there is no store {key!r}; there are: {', '.join(SETTINGS)}")
    address = settings.get(SETTINGS[key])
    if not address:
        return None
    if key == "mongo":
        from carscraper.stores.mongo import MongoDatabase

        return MongoDatabase.from_uri(str(address))
    from carscraper.stores.postgres import PostgresDatabase

    return PostgresDatabase.from_dsn(str(address))
