"""Every product of the shop, by the links of its categories."""

from urllib.parse import urlsplit

from scrapy.linkextractors import LinkExtractor
from scrapy.spiders import CrawlSpider, Rule

from shop.items import Product


class ProductsSpider(CrawlSpider):
    """`-a site=ADDRESS` says where the shop is: the first address that `python -m shop.site` prints."""

    name = "products"
    rules = (
        Rule(LinkExtractor(allow=r"/category/")),
        Rule(LinkExtractor(allow=r"/(product|go)/"), callback="parse_product"),
    )

    def __init__(self, *args, site="http://127.0.0.1:8000", **kwargs):
        super().__init__(*args, **kwargs)
        self.start_urls = [f"{site}/"]

    def parse_product(self, response):
        """One product; its link's text comes with the request."""
        yield Product(
            sku=response.css(".sku::text").get(),
            title=response.css("h1::text").get(),
            price=response.css(".price::text").get(),
            host=urlsplit(response.url).hostname,
            link_text=response.meta["link_text"].strip(),
        )
