"""What `scrapy startproject` writes, without what is commented out there, and the project's own pipeline."""

BOT_NAME = "shop"

SPIDER_MODULES = ["shop.spiders"]
NEWSPIDER_MODULE = "shop.spiders"

ADDONS = {}

ROBOTSTXT_OBEY = True

CONCURRENT_REQUESTS_PER_DOMAIN = 8  # the template's 1 with a delay of 1 s is for sites of others

ITEM_PIPELINES = {"shop.pipelines.EachItemToDisk": 300}

FEED_EXPORT_ENCODING = "utf-8"
