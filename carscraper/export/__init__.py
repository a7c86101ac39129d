"""Records as typed tables, in the formats of feeds and of `scrapy export`."""
