"""The listing API: URLs out, bytes in, models out. Imports neither Scrapy nor Redis."""
