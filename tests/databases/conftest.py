"""What the tests of crawls with databases share: a pair of servers for all that leave them alive."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.databases.looking import Databases, two_servers


@pytest.fixture(scope="session")
def _servers() -> Iterator[Databases]:
    with two_servers() as databases:
        yield databases


@pytest.fixture
def databases(_servers: Databases) -> Databases:
    """Empty ones, on servers that other tests use too."""
    return Databases(_servers.mongo, _servers.postgres)


@pytest.fixture
def mortal() -> Iterator[Databases]:
    """Empty ones, on servers of their own, which may be killed."""
    with two_servers() as databases:
        yield databases
