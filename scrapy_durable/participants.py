"""What takes part in each exchange with the frontier."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from scrapy_durable.frontier.contract import Inbox, Outbox


class Participant:
    """Says something before an exchange, and hears the answer after it. By default it does neither."""

    def say(self, outbox: Outbox) -> None:
        """Put what is new into the outbox, which is sent next.

        Called once for each outbox; one that was not answered is sent again as it is.
        """

    def hear(self, outbox: Outbox, inbox: Inbox) -> None:
        """The frontier has applied `outbox`, and answers."""

    def crawl_ended(self) -> None:
        """Another worker has finished the crawl: what this one still has in hand does not count any more."""

    @property
    def is_urgent(self) -> bool:
        """True when the next exchange must not wait for more to say."""
        return False
