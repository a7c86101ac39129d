"""What is flushed of an item log, read or changed by whoever takes no part in it.

It is read while a process has the log, and after that. Which leases count is not asked: that is for readers to whom an
item's newest reading is what counts, however often it is there.
"""

from __future__ import annotations

import mmap
from collections.abc import Callable, Iterator
from pathlib import Path
from zlib import crc32

from scrapy_durable.disk import write_atomically
from scrapy_durable.exceptions import ItemLogDamaged
from scrapy_durable.item_log.directory import segments_in
from scrapy_durable.item_log.records import (
    LENGTH_BYTES,
    PIECE_HEAD_BYTES,
    PREFIX_BYTES,
    Piece,
    pack,
    read_header,
    read_length,
    read_prefix,
)
from scrapy_durable.item_log.scanning import flushes


def whole_log(directory: Path) -> list[Path]:
    """The segments of a log of which none was deleted yet, in their order; none when there is no log.

    Raises `ItemLogDamaged` when one is missing all the same, or ends too early, `OtherRelease` and `OSError`.
    """
    return list(segments_from(directory))


def segments_from(directory: Path, number: int = 0) -> Iterator[Path]:
    """The same from the segment of that number on, which has to be there; each is checked when the next is asked for.

    Raises as `whole_log`.
    """
    path = None
    for later in segments_in(directory):
        if int(later.stem) < number:
            continue
        header, _ = read_header(later)
        expected = int(path.stem) if path else header.before if header.number == number else 0
        if header.before != expected:
            raise ItemLogDamaged(later, 0, "the segment before it is missing")
        if path and header.before_bytes != (size := path.stat().st_size):
            raise ItemLogDamaged(path, size, f"the file ends here, and had {header.before_bytes} bytes")
        path = later
        yield path
    if number and not path:
        raise ItemLogDamaged(directory, 0, f"segment {number} is missing")


def flushed_items(path: Path, content: mmap.mmap | bytes) -> Iterator[tuple[int, int]]:
    """Where the items of a segment begin and end, as the codec made them, in the order in which they were written.

    `content` is that of the file, or its beginning. Raises `ItemLogDamaged`, `OtherRelease` and `OSError`.
    """
    for start, count in _pieces(path, len(content)):
        at = start + PREFIX_BYTES + PIECE_HEAD_BYTES
        for _ in range(count):
            begin = at + LENGTH_BYTES
            at = begin + read_length(content, at)
            yield begin, at


def item_end(content: mmap.mmap | bytes, begin: int) -> int:
    """Where the item ends of which `flushed_items` has said that it begins there."""
    return begin + read_length(content, begin - LENGTH_BYTES)


def change_items(path: Path, change: Callable[[bytes], bytes]) -> None:
    """Have a segment hold what `change` makes of its items, each of them as long as it was, in one step.

    What a killed process has left of a flush that was never whole goes with it. No process may have the log. Raises
    `ItemLogDamaged`, `OtherRelease`, `OSError`, and `ValueError` when a length differs; then the file is untouched.
    """
    data = bytearray(path.read_bytes())
    is_changed = False
    header, begin = read_header(path)
    whole = max((end for _, end in flushes(path, header.number, begin)), default=begin)
    if whole < len(data):
        del data[whole:]
        is_changed = True
    for start, count in _pieces(path, len(data)):
        prefix = read_prefix(data, start)
        if prefix is None:
            raise ItemLogDamaged(path, start, "this record is damaged")
        end = start + PREFIX_BYTES + prefix.length
        at = start + PREFIX_BYTES + PIECE_HEAD_BYTES
        for _ in range(count):
            begin = at + LENGTH_BYTES
            at = begin + read_length(data, at)
            before = bytes(data[begin:at])
            after = change(before)
            if len(after) != len(before):
                raise ValueError(f"{path}, byte {begin}: {len(after)} bytes in the place of {len(before)}")
            data[begin:at] = after
        payload = bytes(data[start + PREFIX_BYTES : end])
        if crc32(payload) != prefix.checksum:
            data[start:end] = pack(prefix.kind, prefix.token, payload)
            is_changed = True
    if is_changed:
        write_atomically(path, [bytes(data)])


def _pieces(path: Path, size: int) -> Iterator[tuple[int, int]]:
    """Where each piece begins in the first `size` bytes of a segment, and how many items it has."""
    header, begin = read_header(path)
    for found, end in flushes(path, header.number, begin):
        if end > size:
            return
        for entry, content in found:
            if isinstance(content, Piece):
                yield entry.start[1], content.items
