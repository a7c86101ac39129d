"""Crawls of small spiders, killed at moments that the site decides: what is done again, and what is not."""
