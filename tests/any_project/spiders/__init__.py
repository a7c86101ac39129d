"""Spiders as others write them: each is copied into a project that `scrapy startproject` has made."""
