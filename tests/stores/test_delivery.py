"""A delivery that cannot begin holds nothing; what a delivery does in a crawl stands in tests/databases."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from carscraper.exceptions import SpoolDamaged
from carscraper.stores.delivery import Bounds, Delivery
from carscraper.stores.postgres.database import PostgresDatabase
from carscraper.stores.record import Records
from carscraper.stores.spool import Spool
from tests.server_process import hold_port

ROOMY = 1 << 30


async def nothing_to_say(_: Any) -> None:
    raise AssertionError("no record was written")


@pytest.fixture
def port() -> Iterator[int]:
    """One on which nobody listens, now or later."""
    with hold_port() as holder:
        yield holder.getsockname()[1]


async def test_a_damaged_spool_ends_the_beginning_and_leaves_the_others_to_the_next_run(
    tmp_path: Path, port: int
) -> None:
    database = PostgresDatabase.from_address(f"postgresql://127.0.0.1:{port}/cars")
    for name in ("good", "bad"):
        spool = Spool.open(tmp_path / name, database.target, max_bytes=ROOMY)
        spool.append(3 * [b"{}" + b" " * 200])
        spool.close()
    (segment,) = (tmp_path / "bad").glob("*.segment")
    data = bytearray(segment.read_bytes())
    data[100] ^= 1
    segment.write_bytes(data)

    delivery = Delivery(
        database,
        tmp_path,
        "worker",
        Bounds(100, 1.0, ROOMY, 1.0),
        records=Records(),
        on_set_aside=nothing_to_say,
        on_refused=lambda error: pytest.fail(str(error)),
    )
    with pytest.raises(SpoolDamaged, match=r"move .*/bad away to go on without it"):
        await delivery.open()

    spools, _ = Spool.adopt(tmp_path, database.target, max_bytes=ROOMY)
    assert [spool.directory.name for spool in spools] == ["good"], "its lock was not released"
    spools[0].close()
