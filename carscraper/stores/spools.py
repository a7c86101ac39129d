"""The spools of one database, as a process has them: those that others have left, and its own."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from carscraper.exceptions import SpoolDamaged
from carscraper.stores.spool import LeftAlone, Spool

logger = logging.getLogger(__name__)

_T = TypeVar("_T")


class Spools:
    """One thread touches the files, one call after the other, also when its caller is cancelled."""

    def __init__(self, directory: Path, worker: str, name: str, target: str, *, max_bytes: int) -> None:
        """`name` and `target` are those of the database; `max_bytes` of this process's own spool."""
        self.place = 0
        """Of `Spool.place`, once they are open."""
        self.max_bytes = max_bytes
        self._directory = directory
        self._worker = worker
        self._name = name
        self._target = target
        self._spools: list[Spool] = []
        """Those taken over, the oldest first, and this process's own, the last."""
        self._seen: dict[str, None] = {}
        """Names of spools that were there at some time, of any process, in the order of their finding."""
        self._disk = ThreadPoolExecutor(1, thread_name_prefix="spool")

    def __len__(self) -> int:
        """How many records wait in all of them."""
        return sum(len(spool) for spool in self._spools)

    async def open(self) -> None:
        """Open those of earlier processes, then this one's own. Raises `SpoolDamaged` and `OSError`."""
        self._spools, left_alone = await self._adopt()
        for left in left_alone:
            if left.target is None:
                raise SpoolDamaged(f"{left.problem} (move {left.directory} away to go on without it)")
            logger.warning(
                "Records in %s wait for another %s than %s", left.directory, self._name, self._target
            )
        own = await self._on_disk(
            Spool.open, self._directory / self._worker, self._target, max_bytes=self.max_bytes
        )
        self._spools.append(own)
        self.place = await self._on_disk(Spool.place, self._directory)
        if len(self):
            logger.info("%d records of an earlier run wait for %s", len(self), self._name)

    async def take_over(self) -> bool:
        """Whether there was something that processes have left that ended since. Raises `OSError`."""
        spools, _ = await self._adopt()
        if spools:
            self._spools[-1:-1] = spools  # this one's own stays the last
            waiting = sum(map(len, spools))
            logger.info("%d records of a worker that has left wait for %s", waiting, self._name)
        return bool(spools)

    async def _adopt(self) -> tuple[list[Spool], list[LeftAlone]]:
        """What other processes have left, and what of it is not for us."""
        self._seen.update(dict.fromkeys(path.parent.name for path in self._directory.glob("*/.lock")))
        return await self._on_disk(Spool.adopt, self._directory, self._target, max_bytes=self.max_bytes)

    @property
    def waiting(self) -> dict[str, int]:
        """How many wait, by the process that has written them; also after `close`. With zeros: those of which nothing
        is there any more, so that somebody has delivered it.
        """
        gone = [name for name in self._seen if not (self._directory / name).exists()]
        return dict.fromkeys(gone, 0) | {spool.directory.name: len(spool) for spool in self._spools}

    def has_spool_of(self, worker: str) -> bool:
        """Whether something that a process of this name has written is in the directory."""
        return (self._directory / worker).exists()

    async def read(self, most: int) -> tuple[Spool, list[bytes]]:
        """The oldest of all that wait, for `drop`. Raises as `Spool.read`."""
        spool = next(spool for spool in self._spools if len(spool))
        return spool, await self._on_disk(spool.read, most)

    async def drop(self, spool: Spool, payloads: int) -> None:
        """Forget the first so many, which are delivered."""
        await self._on_disk(spool.drop, payloads)

    async def append(self, payloads: Sequence[bytes], *, beyond_bound: bool) -> bool:
        """As `Spool.append`, to this process's own."""
        return await self._on_disk(self._spools[-1].append, payloads, beyond_bound=beyond_bound)

    async def close(self) -> None:
        """Give all of them back."""
        for spool in self._spools:
            await self._on_disk(spool.close)
        self._disk.shutdown()

    async def _on_disk(self, call: Callable[..., _T], *arguments: Any, **options: Any) -> _T:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._disk, partial(call, *arguments, **options))
