"""A database that says no: one line that names the setting, exit status 2, nothing asked of the site."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.crawling import crawl
from tests.databases.looking import Databases
from tests.mongo_server import MongoServer
from tests.standin import StandIn

SECRET = "canary-8d1f"


def refuse(site: StandIn, out: Path, env: dict[str, str], names: str) -> str:
    """A crawl that is refused; returns its one line."""
    with crawl(site.url, out, settings={"LOG_LEVEL": "WARNING"}, env=env) as run:
        assert run.wait(30) == 2, run.log
    assert run.log.count("\n") == 1, run.log
    assert names in run.log
    assert SECRET not in run.log
    assert site.journal() == []
    return run.log


@pytest.mark.parametrize(
    ("name", "address"),
    [
        ("MONGO_URI", f"mongo://user:{SECRET}@127.0.0.1/cars"),
        ("MONGO_URI", f"mongodb://user:{SECRET}@127.0.0.1:port/cars"),
        ("MONGO_URI", f"mongodb://user:{SECRET}:x@127.0.0.1/cars"),
        ("MONGO_URI", f"mongodb://user:{SECRET}@127.0.0.1/a b"),
        ("POSTGRES_DSN", f"postgresql://user:{SECRET}@127.0.0.1:port/cars"),
        ("POSTGRES_DSN", f"host=127.0.0.1 pasword={SECRET}"),
        ("POSTGRES_DSN", f"nonsense:{SECRET}"),
    ],
)
def test_a_wrong_address(name: str, address: str, stand_in: Callable[..., StandIn], tmp_path: Path) -> None:
    refuse(stand_in(20), tmp_path, {name: address}, name)


def test_a_wrong_password(databases: Databases, stand_in: Callable[..., StandIn], tmp_path: Path) -> None:
    site = stand_in(20)
    dsn = databases.postgres.dsn(databases.name, password=SECRET)
    refuse(site, tmp_path, {"POSTGRES_DSN": dsn}, "POSTGRES_DSN")
    with MongoServer(passwords=True) as server:
        uri = server.uri("cars", user=f"root:{SECRET}")
        refuse(site, tmp_path, {"MONGO_URI": uri}, "MONGO_URI")


def test_a_user_without_rights(
    databases: Databases, stand_in: Callable[..., StandIn], tmp_path: Path
) -> None:
    site = stand_in(20)
    role = databases.postgres.create_role(SECRET)
    dsn = databases.postgres.dsn(databases.name, user=role, password=SECRET)
    refuse(site, tmp_path, {"POSTGRES_DSN": dsn}, "POSTGRES_DSN")
    with MongoServer(passwords=True) as server:
        server.add_user("reader", SECRET, {"role": "read", "db": "cars"})
        uri = server.uri("cars", user=f"reader:{SECRET}")
        refuse(site, tmp_path, {"MONGO_URI": uri}, "MONGO_URI")


def test_a_database_that_is_not_there(
    databases: Databases, stand_in: Callable[..., StandIn], tmp_path: Path
) -> None:
    """PostgreSQL makes none by itself."""
    dsn = databases.postgres.dsn("nowhere")
    assert "nowhere" in refuse(stand_in(20), tmp_path, {"POSTGRES_DSN": dsn}, "POSTGRES_DSN")


def test_a_layout_of_a_later_version(
    databases: Databases, stand_in: Callable[..., StandIn], tmp_path: Path
) -> None:
    site = stand_in(20)
    with crawl(site.url, tmp_path, env=databases.env) as run:
        assert run.wait(30) == 0, run.log
    site.reset_journal()
    with databases.mongo.client() as client:
        client[databases.name].cars_meta.update_one({"_id": "schema"}, {"$set": {"version": 99}})
    with databases.postgres.connect(databases.name) as connection:
        connection.execute("INSERT INTO cars_schema (version) VALUES (99)")
    for name, address in databases.env.items():
        assert "99" in refuse(site, tmp_path, {name: address}, name)


def test_a_password_shows_in_no_log_of_a_crawl_that_goes_well(
    databases: Databases, stand_in: Callable[..., StandIn], tmp_path: Path
) -> None:
    """Given on the command line, at DEBUG."""
    site = stand_in(20)
    role = databases.postgres.create_role(SECRET)
    with databases.postgres.connect(databases.name) as connection:
        connection.execute(f"GRANT CREATE ON SCHEMA public TO {role}")
    with MongoServer(passwords=True) as server:
        server.add_user("writer", SECRET, {"role": "readWrite", "db": "cars"})
        settings = {
            "LOG_LEVEL": "DEBUG",
            "MONGO_URI": server.uri("cars", user=f"writer:{SECRET}"),
            "POSTGRES_DSN": databases.postgres.dsn(databases.name, user=role, password=SECRET),
        }
        with crawl(site.url, tmp_path, settings=settings) as run:
            assert run.wait(30) == 0, run.log
    assert SECRET not in run.log
    assert databases.counts()[1] == 20
