"""Scrapy's stats in memory, without a look at how each call is made."""

from __future__ import annotations

from scrapy.statscollectors import MemoryStatsCollector


class LeanStatsCollector(MemoryStatsCollector):
    """Does not warn of a `spider` that is passed to its methods, as it once was everywhere. Scrapy looks for it at each
    access to an attribute, and several stats are counted for each request and each record.
    """

    __getattribute__ = object.__getattribute__
