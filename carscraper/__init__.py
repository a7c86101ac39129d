"""A Scrapy project that reads a whole car catalogue and loses nothing on the way."""
