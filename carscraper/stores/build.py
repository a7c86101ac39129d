"""Which databases records go to: those whose address is set."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from scrapy.utils.misc import load_object

from carscraper.config import Config
from carscraper.exceptions import StoreRefused, StoreUnavailable
from scrapy_durable.exceptions import ConfigurationError

if TYPE_CHECKING:
    from scrapy.settings import BaseSettings

    from carscraper.stores.contract import Database

_DATABASES = {
    "mongo": ("MONGO_URI", "carscraper.stores.mongo.database.MongoDatabase"),
    "postgres": ("POSTGRES_DSN", "carscraper.stores.postgres.database.PostgresDatabase"),
}
"""By its key: the setting that holds a database's address, and the class, whose `from_address` is given that."""

SETTINGS = {key: setting for key, (setting, _) in _DATABASES.items()}
"""A database's key, and the setting that holds its address."""


def build_database(settings: BaseSettings, key: str) -> Database | None:
    """The database of that key, not opened yet; None when its address is not set.

    It keeps removed listings for `CARS_DELETE_REMOVED_AFTER`. A driver is loaded only when it is needed. Raises
    `ConfigurationError` for an address that is none, and for a driver that is not installed; the message does not
    repeat the address, since it may hold a password.
    """
    if key not in SETTINGS:
        raise ConfigurationError(f"there is no store {key!r}; there are: {', '.join(SETTINGS)}")
    address = settings.get(SETTINGS[key])
    if not address:
        return None
    try:
        found = load_object(_DATABASES[key][1])
    except ModuleNotFoundError as error:
        raise ConfigurationError(
            f"{SETTINGS[key]}: it needs the package {error.name}, which is not installed"
        ) from error
    database: Database = found.from_address(str(address))
    database.keep_removed = Config.from_settings(settings).delete_removed_after
    return database


def check_databases(settings: BaseSettings) -> None:
    """See before anything starts that no database says no; one that does not answer is waited for by the crawl.

    Raises `ConfigurationError`, which names the setting.
    """
    asyncio.run(_open_all(settings))


async def _open_all(settings: BaseSettings) -> None:
    await asyncio.gather(*(_try_to_open(settings, key) for key in SETTINGS))


async def _try_to_open(settings: BaseSettings, key: str) -> None:
    database = build_database(settings, key)
    if database is None:
        return
    try:
        await database.open()
    except StoreUnavailable:
        pass
    except StoreRefused as error:
        raise ConfigurationError(f"{SETTINGS[key]}: {error}") from error
    finally:
        await database.close()
