"""Run as a script, with a spider's name, the site, and settings as JSON: the spider is crawled."""

import json
import sys

import scrapy
from scrapy.crawler import AsyncCrawlerProcess
from scrapy.linkextractors import LinkExtractor
from scrapy.spiders import CrawlSpider, Rule

BASE = {
    "SCHEDULER": "scrapy_durable.scheduler.FrontierScheduler",
    "SCHEDULER_PERSIST": True,
    "SPIDER_MIDDLEWARES": {"scrapy_durable.parents.ParentsMiddleware": 0},
    "DOWNLOADER_MIDDLEWARES": {"scrapy_durable.retry.middleware.LastWordMiddleware": 0},
    "TELNETCONSOLE_ENABLED": False,
    "REMOTE_CONTROL_ENABLED": False,
    "ROBOTSTXT_OBEY": False,
    "RETRY_ENABLED": False,
    "CONCURRENT_REQUESTS_PER_DOMAIN": 8,
    "DOWNLOAD_TIMEOUT": 240,
    "LOG_LEVEL": "INFO",
}


class Family(scrapy.Spider):
    """A parent that has the same child three times, each with a child of its own, and is not done before `/late` is."""

    name = "family"

    async def start(self):
        yield scrapy.Request(f"{self.site}/begun", self.nothing, dont_filter=True)
        yield scrapy.Request(f"{self.site}/parent", dont_filter=True)

    async def parse(self, response):
        for number in range(3):
            yield scrapy.Request(
                f"{self.site}/child", self.parse_child, dont_filter=True, cb_kwargs={"number": number}
            )
        await self.crawler.engine.download_async(scrapy.Request(f"{self.site}/late"))

    def parse_child(self, response, number):
        yield scrapy.Request(f"{self.site}/moved", self.nothing, dont_filter=True)

    def nothing(self, response):
        pass


class Lambdas(scrapy.Spider):
    """Requests that have no name to be serialized by."""

    name = "lambdas"

    async def start(self):
        yield scrapy.Request(f"{self.site}/parent", dont_filter=True)

    def parse(self, response):
        for number in range(20):
            yield scrapy.Request(
                f"{self.site}/lambda/{number}",
                lambda response: [scrapy.Request(f"{response.url}/below", self.nothing)],
            )

    def nothing(self, response):
        pass


class Slow(scrapy.Spider):
    """Its start does not end before `/late` is answered."""

    name = "slow"

    async def start(self):
        yield scrapy.Request(f"{self.site}/first", dont_filter=True)
        await self.crawler.engine.download_async(scrapy.Request(f"{self.site}/late"))
        yield scrapy.Request(f"{self.site}/last", dont_filter=True)

    def parse(self, response):
        pass


class Failing(scrapy.Spider):
    """Its start raises."""

    name = "failing"

    async def start(self):
        yield scrapy.Request(f"{self.site}/first", dont_filter=True)
        raise RuntimeError("no more")

    def parse(self, response):
        pass


class One(scrapy.Spider):
    """One request, and what becomes of it."""

    name = "one"

    async def start(self):
        yield scrapy.Request(f"{self.site}/page", errback=self.failed, dont_filter=True)

    def parse(self, response):
        self.logger.info("Answered")

    def failed(self, failure):
        self.logger.info("Told of a failure")


class Ruled(CrawlSpider):
    """One rule has no errback, the other has. `/unheard/never` has a second to be answered in."""

    name = "ruled"
    rules = (
        Rule(LinkExtractor(allow="/unheard/"), process_request="hurry"),
        Rule(LinkExtractor(allow="/heard/"), errback="failed"),
    )

    async def start(self):
        yield scrapy.Request(f"{self.site}/links", dont_filter=True)

    def hurry(self, request, response):
        if request.url.endswith("/never"):
            request.meta["download_timeout"] = 1
        return request

    def failed(self, failure):
        self.logger.info("Told of a failure")


SPIDERS = {spider.name: spider for spider in (Family, Lambdas, Slow, Failing, One, Ruled)}

if __name__ == "__main__":
    name, site, settings = sys.argv[1:]
    process = AsyncCrawlerProcess({**BASE, **json.loads(settings)})
    process.crawl(SPIDERS[name], site=site)
    process.start()
