"""`scrapy dashboard`: the status of a crawl as pages in a browser."""
