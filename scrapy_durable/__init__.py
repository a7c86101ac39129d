"""Makes any Scrapy project's crawl survive a kill: `ADDONS = {"scrapy_durable.Addon": 500}`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from scrapy_durable.addon import Addon
    from scrapy_durable.stores import DurableStore

__all__ = ["Addon", "DurableStore"]


def __getattr__(name: str) -> Any:
    """These, once somebody asks for them: what needs only an error or a path is there without Scrapy."""
    if name == "Addon":
        from scrapy_durable.addon import Addon

        return Addon
    if name == "DurableStore":
        from scrapy_durable.stores import DurableStore

        return DurableStore
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
