"""The statements in a package's `sql/`, by name."""

from __future__ import annotations

from importlib.resources import files
from types import SimpleNamespace


def load_statements(operation: str, *, package: str = "scrapy_durable.frontier") -> SimpleNamespace:
    """The named statements of the package's `sql/<operation>.sql`, as attributes."""
    text = files(package).joinpath("sql", f"{operation}.sql").read_text("utf-8")
    statements = {}
    for section in text.split("-- :")[1:]:
        headline, _, sql = section.partition("\n")
        statements[headline.split()[0]] = sql.strip().removesuffix(";")
    return SimpleNamespace(**statements)


EXCHANGE = load_statements("exchange")
CRAWL = load_statements("crawl")
