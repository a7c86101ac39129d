"""`scrapy deliver`: what waits on disk for a database is delivered, and nothing is crawled."""

from __future__ import annotations

import argparse
import asyncio
import sys
from typing import TYPE_CHECKING, Any, ClassVar

from scrapy.commands import ScrapyCommand
from scrapy.exceptions import UsageError

from carscraper.config import Config
from carscraper.exceptions import StoreError
from carscraper.stores.backlog import Waiting, waiting_in
from carscraper.stores.build import SETTINGS, build_database
from carscraper.stores.delivery import Bounds, Delivery
from carscraper.stores.record import Records
from scrapy_durable.exceptions import ConfigurationError, DurableError

if TYPE_CHECKING:
    from scrapy.settings import BaseSettings

    from carscraper.stores.contract import Database, Refused

_COLUMNS = 8 * 1024**2
"""Bytes of the columns that are kept of specifications: a log has a specification behind each record."""
_ROUNDS = 3
"""How often it is looked whether a process has ended meanwhile and left something, at most."""


class Command(ScrapyCommand):
    """Delivers what earlier processes have left in the item logs under `CARS_OUTPUT_DIR`, searches included.

    The log that a crawl writes now is that crawl's to deliver. A database that takes nothing is given up after
    `CARS_STORE_TIMEOUT`.

    Exit status 0: nothing waits any more. 1: something does, or was refused by a database; a line says what and why.
    2: refused at start.
    """

    requires_project = True
    requires_crawler_process = False
    default_settings: ClassVar[dict[str, Any]] = {"LOG_ENABLED": False}

    def syntax(self) -> str:
        """Nothing but options."""
        return "[options]"

    def short_desc(self) -> str:
        """One line for `scrapy --help`."""
        return "Send the databases what waits for them on disk; crawl nothing"

    def run(self, args: list[str], opts: argparse.Namespace) -> None:
        """Deliver to every database for which something waits."""
        if args:
            raise UsageError(f"nothing but options is understood: {' '.join(args)}", print_help=False)
        if self.settings is None:
            raise RuntimeError("a command runs through scrapy.cmdline")
        try:
            left = asyncio.run(_deliver(self.settings))
            self.exitcode = 1 if left else 0
            sys.stdout.write("" if left else "nothing waits for a database\n")
        except ConfigurationError as error:
            self.exitcode = 2
            sys.stderr.write(f"error: {error}\n")
        except (DurableError, OSError) as error:
            self.exitcode = 1
            sys.stderr.write(f"error: {error}\n")
        except KeyboardInterrupt:
            self.exitcode = 1
            sys.stderr.write("stopped; what was not delivered still waits\n")


async def _deliver(settings: BaseSettings) -> bool:
    """Whether anything is left, of which it was said then why."""
    config = Config.from_settings(settings)
    config.keep_private()
    left: list[str] = []
    for key, setting in SETTINGS.items():
        waiting = _waiting(config, key)
        if not waiting:
            continue
        database = build_database(settings, key)
        if database is None:
            places = ", ".join(str(one.directory) for one in waiting)
            left.append(f"{places}: set {setting}, so that what waits here can be delivered")
        else:
            left += await _deliver_to(database, config)
    for line in left:
        sys.stderr.write(f"{line}\n")
    return bool(left)


async def _deliver_to(database: Database, config: Config) -> list[str]:
    """What is left, and what was refused, a line each."""
    refused: list[str] = []
    for _ in range(_ROUNDS):
        if not any(_may_be_ours(one, database) for one in _waiting(config, database.key)):
            break
        if problem := await _deliver_once(database, config, refused):
            return [*refused, problem]
    return [*refused, *(_why_left(one, database) for one in _waiting(config, database.key))]


async def _deliver_once(database: Database, config: Config, refused: list[str]) -> str | None:
    """Deliver what no other process has; why something of it is left, or None. Raises `ConfigurationError`."""
    stopped: asyncio.Future[StoreError] = asyncio.get_running_loop().create_future()

    async def note(one: Refused) -> None:
        refused.append(f"{database.name} cannot hold listing {one.id}: {one.problem}")

    delivery = Delivery(
        database,
        config.output_dir,
        None,
        Bounds(config.batch_size, config.batch_seconds, config.backlog_max_bytes, config.store_timeout),
        records=Records(_COLUMNS),
        on_set_aside=note,
        on_refused=stopped.set_result,
    )
    try:
        await delivery.open()
    except StoreError as error:
        raise ConfigurationError(f"{SETTINGS[database.key]}: {error}") from error
    sys.stdout.write(f"{delivery.undelivered} records wait for {database.name} at {database.target}\n")
    sys.stdout.flush()
    waiting = asyncio.create_task(delivery.wait_until_delivered())
    stopped.add_done_callback(lambda _: waiting.cancel())
    try:
        await asyncio.wait([waiting])
    finally:
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        problem = delivery.writer.problem
        await delivery.close()
    sys.stdout.write(f"{delivery.writer.written} records were delivered to {database.name}\n")
    if not delivery.undelivered:
        return None
    why = stopped.result() if stopped.done() else problem or "it takes nothing"
    return f"{delivery.undelivered} records still wait for {database.name} at {database.target}: {why}"


def _waiting(config: Config, key: str) -> list[Waiting]:
    return [waiting for waiting in waiting_in(config.output_dir, key) if not waiting.is_empty]


def _may_be_ours(waiting: Waiting, database: Database) -> bool:
    return not waiting.in_use and waiting.target in (None, database.target)


def _why_left(waiting: Waiting, database: Database) -> str:
    if waiting.in_use:
        at_work = "a process that is at work has it, and delivers it itself"
        return f"{waiting.directory}: waits for {database.name}; {at_work}"
    if waiting.target != database.target:
        return f"{waiting.directory}: waits for {database.name} at {waiting.target}, not at {database.target}"
    return f"{waiting.directory}: waits for {database.name}; run this again"
