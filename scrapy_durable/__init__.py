"""A core that makes any Scrapy project's crawl survive whatever is killed."""

from scrapy_durable.addon import Addon as Addon
