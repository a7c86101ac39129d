"""What has come since the last flush, and the records that are made of it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from scrapy_durable.item_log.ledger import Entry, Lease, Ledger
from scrapy_durable.item_log.records import (
    ACCEPTED,
    COMMIT,
    DISCARDED,
    LET_GO,
    NOWHERE,
    PIECE,
    PREFIX_BYTES,
    Piece,
    Place,
    Settled,
    pack_commit,
    pack_piece,
    pack_place,
    pack_prefix,
    pack_settled,
    pieces_of,
)


@dataclass(slots=True)
class Batch:
    """What waits to be flushed."""

    items: dict[int, list[bytes]] = field(default_factory=dict)
    """As the codec made them, by token."""
    accepted: dict[int, None] = field(default_factory=dict)
    """Tokens in the order in which they came, here and below."""
    discarded: dict[int, None] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.items or self.accepted or self.discarded)

    def put_in_front(self, earlier: Batch) -> None:
        """Take in what came before, and could not be flushed."""
        for token, items in self.items.items():
            earlier.items.setdefault(token, []).extend(items)
        self.items = earlier.items
        self.accepted = earlier.accepted | self.accepted
        self.discarded = earlier.discarded | self.discarded


@dataclass(slots=True)
class Flush:
    """Bytes that are written at once from `place` on, and the records in them."""

    place: Place
    parts: list[bytes] = field(default_factory=list)
    entries: list[Entry] = field(default_factory=list)
    loose: list[list[bytes]] = field(default_factory=list)
    """The items of each piece under token 0, in the order of their entries."""
    _size: int = 0

    @property
    def end(self) -> Place:
        """Behind what there is so far."""
        return self.place[0], self.place[1] + self._size

    def add(
        self, kind: int, token: int, payload: Sequence[bytes], *, count: int = 0, let_go: Place = NOWHERE
    ) -> Entry:
        """Append a record; its payload comes in parts."""
        start = self.end
        self.parts.append(pack_prefix(kind, token, payload))
        self.parts += payload
        self._size += PREFIX_BYTES + sum(map(len, payload))
        entry = Entry(kind, token, start, self.end, count, let_go)
        if kind != COMMIT:
            self.entries.append(entry)
        return entry


def make_flush(
    batch: Batch, ledger: Ledger, place: Place, let_go: Place, carried: Iterable[tuple[int, Settled]]
) -> Flush:
    """The records of a batch: items, then what is known of leases, then a commit.

    Items of a lease that is discarded meanwhile are left out. `let_go` is where segments are deleted up to,
    and `NOWHERE` when none is; `carried` are leases of which only those know that they are settled.
    """
    flush = Flush(place)
    leases: dict[int, Lease | None] = {}
    for token, items in batch.items.items():
        if not token:
            _add_loose(flush, items)
        elif token not in batch.discarded or token in batch.accepted:
            leases[token] = _add_items(flush, token, items, ledger.leases.get(token))
    for kind, tokens in ((ACCEPTED, batch.accepted), (DISCARDED, batch.discarded)):
        for token in tokens:
            lease = leases[token] if token in leases else ledger.leases.get(token)
            if lease is not None:
                flush.add(kind, token, [pack_settled(lease.settled)])
            leases[token] = None
    for token, settled in carried:
        flush.add(DISCARDED, token, [pack_settled(settled)])
    if let_go > NOWHERE:
        flush.add(LET_GO, 0, [pack_place(let_go)], let_go=let_go)
    if flush.parts:
        flush.add(COMMIT, 0, [pack_commit(place[1])])
    return flush


def _add_items(flush: Flush, token: int, items: list[bytes], lease: Lease | None) -> Lease | None:
    for part in pieces_of(items):
        previous, earlier = (lease.last, lease.count) if lease else (NOWHERE, 0)
        payload = pack_piece(Piece(previous, earlier, len(part)), part)
        count = earlier + len(part)
        start = flush.add(PIECE, token, payload, count=count).start
        lease = lease.with_piece(start, count) if lease else Lease(start, count, (start[0],))
    return lease


def _add_loose(flush: Flush, items: list[bytes]) -> None:
    for part in pieces_of(items):
        flush.loose.append(list(part))
        flush.add(PIECE, 0, pack_piece(Piece(NOWHERE, 0, len(part)), part), count=len(part))
