"""`scrapy queue`, as the core has it."""

from __future__ import annotations

from scrapy_durable.commands.queue import Command as CoreCommand


class Command(CoreCommand):
    """The core's own: Scrapy takes a command only from the module that defines it."""
