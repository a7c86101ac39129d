"""A core that makes any Scrapy project's crawl survive whatever is killed."""
