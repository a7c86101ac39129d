"""The item log of one worker: items on its disk under the leases that made them, and which of those count.

The files are those of `directory.py` and `records.py`. A flush is written and synced as one, in a thread; what it holds
counts once that has succeeded. Everything else is called in one thread, the event loop's, and finds the log as it was
after the last flush.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from scrapy_durable.exceptions import CodecError
from scrapy_durable.item_log.codec import ItemCodec
from scrapy_durable.item_log.directory import LogDirectory
from scrapy_durable.item_log.flush import Batch, Flush, make_flush
from scrapy_durable.item_log.ledger import Ledger, Segment
from scrapy_durable.item_log.reading import BEGINNING, Accepted, LogReader, Position
from scrapy_durable.item_log.records import ACCEPTED, NOWHERE, PIECE, Settled
from scrapy_durable.item_log.recovery import recover
from scrapy_durable.item_log.scanning import settled_in
from scrapy_durable.item_log.unkept import UnkeptItems
from scrapy_durable.item_log.writer import SegmentWriter

logger = logging.getLogger(__name__)


class ItemLog:
    """Opened once by `open`, and held until `close` or `remove`.

    The items of a lease count once it is accepted, and are read in the order of acceptance. Those under token 0, which
    have no lease, count as they are flushed. Numbers count from `open` on.
    """

    def __init__(self, directory: Path, codec: ItemCodec, *, segment_bytes: int = 64 << 20) -> None:
        """A segment that has grown to `segment_bytes` is followed by another."""
        self.name = ""
        """Of this log, for as long as its crawl is not forgotten: 16 hexadecimal digits; empty before `open`."""
        self.received = 0
        """Items that were appended."""
        self.durable = 0
        """So many of them are flushed, or were discarded before that."""
        self.size = 0
        """Bytes on disk."""
        self.unaccounted = 0
        """Items under token 0."""
        self.unkept = 0
        """Items that could not be encoded."""
        self._directory = LogDirectory(directory)
        self._codec = codec
        self._segment_bytes = segment_bytes
        self._unkept = UnkeptItems()
        self._batch = Batch()
        self._confirming: dict[int, None] = {}
        """Accepted since the last write was begun, in order."""
        self._confirmed: list[int] = []
        self._passed: Position = BEGINNING
        self._one_at_a_time = asyncio.Lock()

    def open(self, crawl_id: str) -> list[int]:
        """Take the log of that crawl, made when there is none; one of another crawl is emptied first.

        Blocks until all of it is checked. Returns the tokens with items of which it is not known whether they count,
        in ascending order. Raises `ItemLogInUse`, `ItemLogDamaged`, `OtherRelease` and `OSError`; then nothing has
        changed.
        """
        self._directory.lock()
        with contextlib.ExitStack() as on_failure:
            on_failure.callback(self._directory.unlock)
            recovered = recover(self._directory, crawl_id)
            self._unkept.lost = self._directory.lost()
            on_failure.pop_all()
        header, ledger = recovered.header, recovered.ledger
        last = ledger.segments[header.number]
        self.name = header.name
        self.size = ledger.size
        self._passed = (*ledger.floor, 0)
        self._ledger: Ledger = ledger
        self._writer = SegmentWriter(self._directory, header, last.begin, last.end, self._segment_bytes)
        self._reader = LogReader(self._directory, self._codec, self._unkept)
        self._reader.floor = ledger.floor
        for number, segment in ledger.segments.items():
            self._reader.extend(number, segment.begin, segment.end)
        return sorted(ledger.leases)

    @property
    def lost(self) -> int:
        """Items that were read and are not there: an earlier process could not encode them, and had them in memory.

        Of all runs of the crawl; one that several have missed counts in each.
        """
        return self._unkept.lost

    @property
    def last_segment(self) -> int:
        """Number of the segment that was written to last."""
        return self._writer.number

    def append(self, token: int, item: Any) -> None:
        """Have an item flushed with the next write, as it is now. One that cannot be encoded stays in memory."""
        try:
            encoded = self._codec.encode(item)
        except CodecError as error:
            encoded = self._unkept.keep(token, item)
            self.unkept += 1
            if self.unkept == 1:
                logger.warning(
                    "An item cannot be kept on disk (%s): it waits in memory, and is lost with this process",
                    str(error),  # an error holds the item
                )
        self.append_encoded(token, encoded)

    def append_encoded(self, token: int, encoded: bytes) -> None:
        """The same of what the codec has made of an item already."""
        self._batch.items.setdefault(token, []).append(encoded)
        self.received += 1
        self.unaccounted += not token

    def accept(self, tokens: Iterable[int]) -> None:
        """The frontier has accepted these leases, of which all items were appended before. It may say so again."""
        for token in tokens:
            self._batch.accepted[token] = None
            self._confirming[token] = None

    def discard(self, tokens: Iterable[int]) -> None:
        """Nobody will ever accept these leases."""
        for token in tokens:
            self._batch.discarded[token] = None
            self._unkept.discard(token)

    async def write(self) -> None:
        """Flush what has come, and delete segments that nobody needs any more.

        Raises `OSError`: then nothing of it counts, and the next call tries again. A caller that is cancelled
        leaves a flush that goes on by itself.
        """
        task = asyncio.create_task(self._write())
        task.add_done_callback(_look_at)
        await asyncio.shield(task)

    def confirmed(self) -> list[int]:
        """Tokens whose acceptance is on disk, or that have no items here; each is returned once for each `accept`."""
        confirmed, self._confirmed = self._confirmed, []
        return confirmed

    def read(self, after: Position, most: int) -> list[Accepted]:
        """What is on disk and counts, in the order of acceptance: up to `most` items behind a position.

        A lease that has more is read in parts. Nothing is returned when there is nothing more now. An item that was
        lost is left out, and counts in the position. Raises `ItemLogDamaged`, `OSError`, and `CodecError` when the
        class of an item is not there any more.
        """
        lost = self.lost
        accepted = self._reader.read(after, most)
        if self.lost > lost:
            self._directory.note_lost(self.lost)  # before anybody notes to be behind it
        return accepted

    def let_go(self, upto: Position) -> None:
        """Every consumer has passed this position. What nobody needs behind it is deleted by the next write."""
        self._passed = max(self._passed, upto)
        self._unkept.let_go(upto[:2])

    def close(self) -> None:
        """Let another process have it. What was not flushed is gone."""
        if self.name:
            self._writer.close()
        self._directory.unlock()

    def remove(self) -> None:
        """Delete all files, since the crawl is forgotten, and close."""
        self._writer.close()
        self._directory.remove()
        self.size = 0

    async def _write(self) -> None:
        async with self._one_at_a_time:
            unneeded = self._ledger.unneeded(self._passed[:2])
            batch, self._batch = self._batch, Batch()
            confirming, self._confirming = self._confirming, {}
            received = self.received
            try:
                if batch or unneeded:
                    self._take_note(await asyncio.to_thread(self._flush, batch, unneeded))
            except BaseException as error:
                if not isinstance(error, OSError):
                    self._writer.close()  # nobody knows what it has done
                self._batch.put_in_front(batch)
                self._confirming = confirming | self._confirming
                raise
            self.durable = received
            self._confirmed += confirming
            for number in unneeded:
                self._reader.forget(number)
            with contextlib.suppress(OSError):  # tried again with the next write
                for number in unneeded:
                    await asyncio.to_thread(self._directory.delete, number)
                    del self._ledger.segments[number]
            self.size = self._ledger.size

    def _flush(self, batch: Batch, unneeded: list[int]) -> Flush:
        """Write a batch, in a thread."""
        let_go = self._passed[:2] if unneeded else NOWHERE
        place = self._writer.prepare()
        flush = make_flush(batch, self._ledger, place, let_go, self._carried(unneeded))
        if flush.parts:
            self._writer.write(flush.parts)
        return flush

    def _carried(self, unneeded: list[int]) -> Iterator[tuple[int, Settled]]:
        """Leases with items in segments that stay, of which nothing but these segments says that they are settled."""
        stay = self._ledger.segments.keys() - unneeded
        for number in unneeded:
            if min(stay) < number:
                begin = self._ledger.segments[number].begin
                for token, settled in settled_in(self._directory.segment(number), begin):
                    if any(settled.first_segment <= other <= settled.last[0] for other in stay):
                        yield token, settled

    def _take_note(self, flush: Flush) -> None:
        """A flush is on disk."""
        number, end = flush.end
        segment = self._ledger.segments.setdefault(number, Segment(self._writer.begin, end))
        segment.end = end
        self._reader.extend(number, segment.begin, end)
        loose = iter(flush.loose)
        for entry in flush.entries:
            self._ledger.follow(entry)
            if entry.kind == ACCEPTED:
                self._unkept.accept(entry.token, entry.end)
            elif entry.kind == PIECE and not entry.token:
                self._unkept.accept_loose(next(loose), entry.end)
        self._reader.floor = self._ledger.floor


def _look_at(task: asyncio.Task[None]) -> None:
    """An error that nobody waits for any more is met again by the next write."""
    if not task.cancelled():
        task.exception()
