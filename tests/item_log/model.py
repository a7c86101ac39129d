"""What an item log holds, in memory: the model that the real one is compared with."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

Items = list[Any]


@dataclass
class Model:
    """A log whose writes always succeed, at once."""

    waiting: dict[int, Items] = field(default_factory=dict)
    """Appended, and not flushed, by token."""
    accepting: list[int] = field(default_factory=list)
    discarding: list[int] = field(default_factory=list)
    open: dict[int, Items] = field(default_factory=dict)
    """Flushed, of leases of which it is not known whether they count."""
    counted: list[tuple[int, Items]] = field(default_factory=list)
    """What counts, in order; items under token 0 one by one."""

    def append(self, token: int, item: Any) -> None:
        self.waiting.setdefault(token, []).append(item)

    def write(self) -> None:
        for item in self.waiting.pop(0, []):
            self.counted.append((0, [item]))
        for token, items in self.waiting.items():
            if token not in self.discarding:
                self.open.setdefault(token, []).extend(items)
        for token in self.accepting:
            if token in self.open:
                self.counted.append((token, self.open.pop(token)))
        for token in self.discarding:
            self.open.pop(token, None)
        self.lose_waiting()

    def lose_waiting(self) -> None:
        """What a kill does."""
        self.waiting, self.accepting, self.discarding = {}, [], []

    @property
    def items(self) -> Items:
        return [item for _, items in self.counted for item in items]
