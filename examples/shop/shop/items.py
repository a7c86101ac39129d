"""What the shop's pages hold."""

import scrapy


class Product(scrapy.Item):
    """One product, as its page and the link to it show it."""

    sku = scrapy.Field()
    title = scrapy.Field()
    price = scrapy.Field()
    host = scrapy.Field()
    link_text = scrapy.Field()
