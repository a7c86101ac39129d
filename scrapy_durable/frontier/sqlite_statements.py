"""The statements in `sql/`, by name."""

from __future__ import annotations

from importlib.resources import files
from types import SimpleNamespace


def load_statements(operation: str) -> SimpleNamespace:
    """The named statements of `sql/<operation>.sql`, as attributes."""
    text = files("scrapy_durable.frontier").joinpath("sql", f"{operation}.sql").read_text("utf-8")
    statements = {}
    for section in text.split("-- :")[1:]:
        headline, _, sql = section.partition("\n")
        statements[headline.split()[0]] = sql.strip().removesuffix(";")
    return SimpleNamespace(**statements)


EXCHANGE = load_statements("exchange")
CRAWL = load_statements("crawl")
