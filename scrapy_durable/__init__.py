"""Makes any Scrapy project's crawl survive a kill: `ADDONS = {"scrapy_durable.Addon": 500}`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from scrapy_durable.addon import Addon

__all__ = ["Addon"]


def __getattr__(name: str) -> Any:
    """`Addon`, once somebody asks for it: what needs only an error or a path is there without Scrapy."""
    if name == "Addon":
        from scrapy_durable.addon import Addon

        return Addon
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
