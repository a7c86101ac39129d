"""The spider of Scrapy's tutorial: CSS and XPath, `response.follow`."""

import scrapy


class QuotesSpider(scrapy.Spider):
    """Quotes and their authors."""

    name = "quotes"

    def __init__(self, *args, site, **kwargs):
        super().__init__(*args, **kwargs)
        self.start_urls = [f"{site}/quotes/page/1/"]

    def parse(self, response):
        for quote in response.css("div.quote"):
            yield {
                "text": quote.css("span.text::text").get(),
                "author": quote.xpath("span/small/text()").get(),
                "tags": quote.css("div.tags a.tag::text").getall(),
            }
            yield from response.follow_all(
                quote.xpath('.//a[contains(@href, "/author/")]'), self.parse_author
            )
        next_page = response.css("li.next a::attr(href)").get()
        if next_page is not None:
            yield response.follow(next_page, callback=self.parse)

    def parse_author(self, response):
        yield {
            "name": response.css("h3::text").get(),
            "born": response.xpath("//p[@class='born']/text()").get(),
        }
