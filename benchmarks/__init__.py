"""Measurements of the crawl beside others, on the catalogue of the stand-in API."""
