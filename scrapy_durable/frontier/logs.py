"""What a frontier does for the item logs of its workers; a part of its contract."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from scrapy_durable.frontier.views import LogStatus


class Logs(Protocol):
    """What is remembered for each log, and which of them has the first of items that repeat each other."""

    async def join_log(self, log: str) -> list[int]:
        """Take over the item log of that name, from whoever had it; returns the tokens that are remembered for it, in
        the order of their acceptance.

        From now on what is `logged` by this frontier is remembered there, and what is by whoever had it before is
        stale, even under the same worker's name: an exchange of a killed process may still be on its way. The log is
        open again if it was closed, and stays listed until `forget`. Raises `LogAbandoned`, ValueError for a name that
        is not one (see `log_names`), and `FrontierError` when there are `log_names.MOST_LOGS` already.
        """

    async def claim_items(self, keys: Sequence[str]) -> list[bool]:
        """Have the items of these keys, which others may repeat, be this worker's log's, unless they are another's:
        which are. Where one worker crawls alone, all are. Asking again gives the same answer.

        Raises `LogAbandoned`, and `FrontierError` when this worker has no log (any more).
        """

    async def close_log(self) -> None:
        """Note that this worker's log has confirmed everything and that its feeds are stored. Raises `FrontierError`
        when it has none (any more) or tokens are unconfirmed, and `LogAbandoned`.
        """

    async def logs(self) -> list[LogStatus]:
        """The logs that have joined the crawl, by name; closed ones too. Works without `begin`."""

    async def abandon_log(self, name: str) -> int | None:
        """Give a log up: its remembered tokens are dropped, it is closed, and nobody joins it again. Returns how many
        leases with items were unconfirmed, or None when there is no log of that name. Works without `begin`.
        """
