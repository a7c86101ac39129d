"""A `RedisSpider` of scrapy-redis: what it starts from is pushed to `pushed:start_urls`."""

from scrapy_redis.spiders import RedisSpider


class PushedSpider(RedisSpider):
    """The products of the categories that were pushed."""

    name = "pushed"

    def __init__(self, *args, site, **kwargs):
        super().__init__(*args, **kwargs)

    def parse(self, response):
        for link in response.xpath("//ol/li[not(@class)]/a"):
            yield response.follow(link, self.parse_product, cb_kwargs={"title": link.xpath("text()").get()})
        yield from response.follow_all(css="li.next a")

    def parse_product(self, response, title):
        yield {"sku": response.css(".sku::text").get(), "title": title}
