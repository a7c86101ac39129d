"""A spider that keeps in `spider.state` what it has seen."""

import scrapy


class RememberingSpider(scrapy.Spider):
    """The names of the quotes' authors, of each page of theirs."""

    name = "remembering"

    def __init__(self, *args, site, **kwargs):
        super().__init__(*args, **kwargs)
        self.start_urls = [f"{site}/quotes/page/1/"]

    def parse(self, response):
        yield from response.follow_all(response.xpath('//a[contains(@href, "/author/")]'), self.parse_author)
        yield from response.follow_all(css="li.next a")

    def parse_author(self, response):
        name = response.css("h3::text").get()
        self.state.setdefault("authors", []).append(name)
        yield {"name": name}
