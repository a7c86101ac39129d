"""What is kept in another way has another version: so a crawl of another release is refused, and not misread.

Whoever changes what is kept raises the version by one, in `sql/schema.sql` and `sqlite.py` or in `lua/keys.lua` and
`redis_layout.py`, and puts the new digest here.
"""

from __future__ import annotations

import re
from hashlib import sha256
from importlib.resources import files

from scrapy_durable.frontier.redis_layout import FIXED_KEYS, STATE_VERSION
from scrapy_durable.frontier.sqlite_file import SCHEMA_VERSION

SQLITE = (7, "11973f314b284555")
REDIS = ("8", "304a5e693218a3c0")


def text(*path: str) -> str:
    return files("scrapy_durable.frontier").joinpath(*path).read_text("utf-8")


def digest(*parts: str) -> str:
    return sha256("\n".join(parts).encode()).hexdigest()[:16]


def test_the_tables_of_a_version_stay_as_they_are() -> None:
    schema = re.sub(r"--.*", "", text("sql", "schema.sql"))
    assert f"PRAGMA user_version = {SCHEMA_VERSION};" in schema
    assert (SCHEMA_VERSION, digest(*schema.split())) == SQLITE


def test_the_keys_of_a_version_and_what_is_packed_in_them_stay_as_they_are() -> None:
    code = re.sub(r"--.*", "", text("lua", "keys.lua"))
    assert f"local VERSION = '{STATE_VERSION}'" in code
    packed = re.findall(r"struct\.pack\(.*", code)
    keys = [f"{key} {kind}" for key, kind in FIXED_KEYS.items()]
    assert (STATE_VERSION, digest(*keys, *packed)) == REDIS
