"""A spider with many items and no site: its pages are in their addresses."""

import asyncio
import os
import signal

import scrapy


class ManySpider(scrapy.Spider):
    """`odd`: one item in ten has a value that cannot be serialized. `die_after`: so many pages, then SIGKILL, once all
    items of those before are acknowledged.
    """

    name = "many"
    start_urls = ("data:,0",)
    pages, of_each = 100, 40

    def __init__(self, odd="", die_after="", **kwargs):
        super().__init__(**kwargs)
        self.odd = bool(odd)
        self.die_after = int(die_after or self.pages)

    async def parse(self, response):
        page = int(response.text)
        if page == self.die_after:
            scheduler = self.crawler.engine.scheduler
            while (await scheduler.frontier.status()).total.done < page:
                await asyncio.sleep(0.01)
            os.kill(os.getpid(), signal.SIGKILL)
        if page + 1 < self.pages:
            yield scrapy.Request(f"data:,{page + 1}")
        for number in range(page * self.of_each, (page + 1) * self.of_each):
            item = {"number": number, "text": f"{number:04}" * 250}
            if self.odd and number % 10 == 0:
                item["odd"] = Odd()
            yield item


class Odd:
    """Exporters write it as text."""

    def __init__(self):
        self.made_here = lambda: None

    def __str__(self):
        return "odd"
