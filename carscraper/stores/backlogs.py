"""The logs on their way to one database, as a process has them: those that others have left, and its own."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from hashlib import blake2b
from pathlib import Path
from typing import Any, TypeVar

from carscraper.exceptions import BacklogDamaged
from carscraper.output.archive import CRAWLS, crawls_in
from carscraper.output.occupancy import POSITION, remove_abandoned
from carscraper.stores.backlog import Backlog, process_of, waiting_in

logger = logging.getLogger(__name__)

_T = TypeVar("_T")
_PLACE = ".place"
"""A file among the directories of crawls, which is made once and never written to."""


class Backlogs:
    """One thread touches the files, one call after the other, also when its caller is cancelled."""

    def __init__(self, output_dir: Path, key: str, name: str, target: str, own: Path | None) -> None:
        """`key`, `name` and `target` are those of the database; `own` is where this process logs, if it does."""
        self.place = 0
        """Of 63 bits; tells the output directory from those on other disks. It is the same for all processes that
        share what crawls have kept. 0 before it is opened.
        """
        self.own: Backlog | None = None
        self._output_dir = output_dir
        self._key = key
        self._name = name
        self._target = target
        self._own_directory = own
        self._left: dict[Backlog, int] = {}
        """What others have left, the oldest first, and how many of it wait."""
        self._seen: dict[str, Path] = {}
        """Processes of which something was there at some time, in the order of their finding, and where."""
        self._disk = ThreadPoolExecutor(1, thread_name_prefix="backlog")

    def __len__(self) -> int:
        """How many entries wait of what others have left."""
        return sum(self._left.values())

    async def open(self) -> None:
        """Adopt what earlier processes have left, and begin this one's own. Raises `BacklogDamaged` and `OSError`."""
        self.place = await self.on_disk(_place, self._output_dir)
        await self._adopt(at_start=True)
        if self._own_directory is not None:
            self.own = await self.on_disk(Backlog.begin, self._own_directory, self._key, self._target)
        if len(self):
            logger.info("%d records of an earlier run wait for %s", len(self), self._name)

    async def take_over(self) -> bool:
        """Whether there was something that processes have left that ended since. Raises `OSError`."""
        before = len(self)
        await self._adopt(at_start=False)
        if len(self) > before:
            logger.info("%d records of a worker that has left wait for %s", len(self) - before, self._name)
        return len(self) > before

    async def _adopt(self, *, at_start: bool) -> None:
        for waiting in await self.on_disk(waiting_in, self._output_dir, self._key):
            self._seen[process_of(waiting.directory)] = waiting.directory
            if waiting.in_use:
                continue
            if waiting.target not in (self._target, None):
                if at_start:
                    logger.warning(
                        "Records in %s wait for another %s than %s",
                        waiting.directory,
                        self._name,
                        self._target,
                    )
                continue
            try:
                backlog = await self.on_disk(_adopt, waiting.directory, self._key, self._target)
            except BacklogDamaged as error:
                if at_start:
                    raise BacklogDamaged(
                        f"{error} (move {waiting.directory} away to go on without it)"
                    ) from error
                continue
            if backlog is not None:
                self._left[backlog] = backlog.waiting
                await self._end_if_done(backlog)

    async def _end_if_done(self, backlog: Backlog) -> None:
        if self._left[backlog] <= 0:
            await self.on_disk(_end, backlog)
            del self._left[backlog]

    @property
    def waiting(self) -> dict[str, int]:
        """How many wait of what others have left, by the process that has written them; also after `close`. With zeros:
        those of which nothing is there any more, so that somebody has delivered it.
        """
        gone = [name for name, at in self._seen.items() if not (at / f"{self._key}{POSITION}").exists()]
        return dict.fromkeys(gone, 0) | {backlog.name: number for backlog, number in self._left.items()}

    def has_any_of(self, process: str) -> bool:
        """Whether something that a process of this name has written waits here."""
        return any(
            any(crawl.glob(f"*-{process}/{self._key}{POSITION}")) for crawl in crawls_in(self._output_dir)
        )

    async def read(self, most: int) -> tuple[Backlog, list[bytes]]:
        """The oldest of what others have left, for `drop`. Raises as `Backlog.read`."""
        backlog = next(backlog for backlog, waiting in self._left.items() if waiting > 0)
        return backlog, await self.on_disk(backlog.read, most)

    async def drop(self, backlog: Backlog, entries: int) -> None:
        """Forget the first so many, which are delivered."""
        self._left[backlog] = self._left[backlog] - entries if entries else 0
        await self.on_disk(backlog.drop, entries)
        await self._end_if_done(backlog)

    async def close(self, *, nothing_waits: bool) -> None:
        """Give all of them back; the own is gone when nothing of it waits."""
        if self.own is not None:
            if nothing_waits:
                with contextlib.suppress(OSError):  # it is delivered again, which does no harm
                    await self.on_disk(self.own.remove)
            await self.on_disk(self.own.close)
        for backlog, waiting in self._left.items():
            await self.on_disk(backlog.close if waiting > 0 else partial(_end, backlog))
        self._disk.shutdown()

    async def on_disk(self, call: Callable[..., _T], *arguments: Any) -> _T:
        """Call it in the thread."""
        return await asyncio.get_running_loop().run_in_executor(self._disk, partial(call, *arguments))


def _adopt(directory: Path, key: str, target: str) -> Backlog | None:
    """With what waits counted. Raises as `Backlog.adopt`."""
    backlog = Backlog.adopt(directory, key, target)
    if backlog is not None:
        with contextlib.ExitStack() as on_failure:
            on_failure.callback(backlog.close)
            backlog.count()
            on_failure.pop_all()
    return backlog


def _end(backlog: Backlog) -> None:
    """All of it is delivered: of a crawl that has ended, nothing is left here that anybody needs."""
    with contextlib.suppress(OSError):  # it is delivered again, which does no harm
        backlog.remove()
    backlog.close()
    with contextlib.suppress(OSError, ValueError):  # the next crawl says so
        remove_abandoned(backlog.directory.parent, complete_too=False)


def _place(output_dir: Path) -> int:
    """Made of the inode of a file, and of when that was made. Raises `OSError`."""
    path = output_dir / CRAWLS / _PLACE
    path.parent.mkdir(parents=True, exist_ok=True)
    path.open("ab").close()
    made = path.stat()
    digest = blake2b(f"{made.st_ino} {made.st_mtime_ns}".encode(), digest_size=8).digest()
    return int.from_bytes(digest) >> 1
