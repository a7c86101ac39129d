"""An ordinary Scrapy project: a crawler of a small shop."""
