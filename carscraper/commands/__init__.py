"""The `scrapy` subcommands of this project."""
