"""The statements in `sql/`, with the columns that `api/columns.py` declares."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.resources import files

from carscraper.api.columns import COLUMNS, DECLARED, Column

SQL_TYPES: dict[type, str] = {str: "text", int: "bigint", float: "double precision"}
"""What the types of `COLUMNS` are in the tables."""

_INCOMING = ("id", "url", "scraped_at", *COLUMNS, "unread", "car_attrs", "specs_digest", "digest")
TYPES = (
    "text", "text", "timestamptz", *(SQL_TYPES[kind] for kind in COLUMNS.values()),
    "jsonb", "jsonb", "bytea", "bytea",
)  # fmt: skip
"""Of what `COPY` sends, in its order."""

_WITHOUT_SPECS = "excluded.specs_digest = %(spec_missing)s"
_OF_LISTING = "excluded.{0}"
_OF_BOTH = f"CASE WHEN {_WITHOUT_SPECS} THEN coalesce(excluded.{{0}}, cars.{{0}}) ELSE excluded.{{0}} END"
_OF_SPECS = f"CASE WHEN {_WITHOUT_SPECS} THEN cars.{{0}} ELSE excluded.{{0}} END"
"""What becomes of a typed column, by where it comes from."""


def load_sql(name: str) -> bytes:
    """The text of `sql/<name>.sql`."""
    return files("carscraper.stores.postgres").joinpath("sql", f"{name}.sql").read_bytes()


def _replaced() -> Iterator[str]:
    """What becomes of each typed column of a listing that is written again."""
    for column in DECLARED:
        yield f"    {column.name} = {_value(column).format(column.name)}"


def _value(column: Column) -> str:
    if not column.labels:
        return _OF_LISTING
    return _OF_BOTH if column.attribute else _OF_SPECS


def _with_columns(statement: bytes) -> bytes:
    """The statement with its comments `/* columns */` and `/* replaced columns */` filled in."""
    return statement.replace(b"/* columns */", ", ".join(COLUMNS).encode()).replace(
        b"    /* replaced columns */", ",\n".join(_replaced()).encode()
    )


def _last_step() -> int:
    steps = files("carscraper.stores.postgres").joinpath("sql", "schema").iterdir()
    return max(int(step.name.partition(".")[0]) for step in steps if step.name.endswith(".sql"))


LAYOUT = _last_step()
"""Version of the layout of the tables: the number of the last file in `sql/schema/`."""

SESSION = load_sql("session")
LOCK_LAYOUT = load_sql("lock_layout")
VERSION = load_sql("version")
RIGHTS = load_sql("rights")
INCOMING = load_sql("incoming")
SEE_AGAIN = load_sql("see_again")
MISSING_SPECS = load_sql("missing_specs")
ADD_SPECS = load_sql("add_specs")
COPY = f"COPY incoming ({', '.join(_INCOMING)}) FROM STDIN (FORMAT BINARY)".encode()
WRITE = _with_columns(load_sql("write"))
SEEN_BEFORE = load_sql("seen_before")
MARK_REMOVED = load_sql("mark_removed")
DELETE_REMOVED = load_sql("delete_removed")
ERASE = load_sql("erase")
PAGE = load_sql("page")
