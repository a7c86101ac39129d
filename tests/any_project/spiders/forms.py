"""Item objects in `meta` and `cb_kwargs`, forms, JSON, errbacks, redirects, the same address asked for many times."""

from dataclasses import dataclass

import scrapy
from scrapy.http import FormRequest, JsonRequest


@dataclass
class Found:
    """What a search tells of a product."""

    sku: int
    page: int


class Detail(scrapy.Item):
    """One product, put together from three answers; `gone` instead when it has no page."""

    sku = scrapy.Field()
    page = scrapy.Field()
    title = scrapy.Field()
    pounds = scrapy.Field()
    gone = scrapy.Field()


class FormsSpider(scrapy.Spider):
    """Logs in, searches, and asks for each product and then for the rate of exchange."""

    name = "forms"

    def __init__(self, *args, site, **kwargs):
        super().__init__(*args, **kwargs)
        self.start_urls = [f"{site}/login"]

    def parse(self, response):
        yield FormRequest.from_response(response, formdata={"user": "reader"}, callback=self.parse_account)

    def parse_account(self, response):
        for page in range(1, int(response.css("#pages::text").get()) + 1):
            yield JsonRequest(response.urljoin("/api/search"), data={"page": page}, callback=self.parse_found)

    def parse_found(self, response):
        found = response.json()
        for one in found["found"]:
            yield scrapy.Request(
                one["url"],
                callback=self.parse_product,
                errback=self.no_product,
                meta={"found": Found(one["sku"], found["page"])},
                cb_kwargs={"item": Detail(sku=one["sku"])},
            )

    def parse_product(self, response, item):
        item["page"] = response.meta["found"].page
        item["title"] = response.css("h1::text").get()
        price = float(response.css(".price::text").get())
        yield response.follow(
            "/rate", self.parse_rate, dont_filter=True, cb_kwargs={"item": item, "price": price}
        )

    def parse_rate(self, response, item, price):
        item["pounds"] = price * float(response.css(".rate::text").get())
        yield item

    def no_product(self, failure):
        request = failure.request
        yield Detail(sku=request.cb_kwargs["item"]["sku"], page=request.meta["found"].page, gone=True)
