"""Commands that are added to Scrapy's."""
