"""Redis, MongoDB and PostgreSQL over TLS: the certificate is checked, and one that nobody has signed is refused."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

import pytest

from tests.crawling import Crawl, crawl
from tests.hostile.tls_front import make_certificate
from tests.mongo_server import MongoServer
from tests.postgres_server import PostgresServer
from tests.redis_server import RedisServer
from tests.server_process import hold_port
from tests.standin import StandIn

Served = tuple[str, Callable[[Path], str], Callable[[], bool]]
"""A setting, its address for a file of certificates, and whether anything arrived at the server."""


@contextmanager
def redis(certificate: Path, key: Path) -> Iterator[Served]:
    with hold_port() as held:
        port = held.getsockname()[1]
        options = {
            "tls-port": str(port),
            "tls-cert-file": str(certificate),
            "tls-key-file": str(key),
            "tls-auth-clients": "no",
        }
        with RedisServer(options=options) as server, server.client() as client:
            yield (
                "REDIS_URL",
                lambda trusted: f"rediss://127.0.0.1:{port}/0?ssl_ca_certs={trusted}",
                lambda: any(client.scan_iter("{cars}:*")),
            )


@contextmanager
def mongo(certificate: Path, key: Path) -> Iterator[Served]:
    both = certificate.with_name("both.pem")
    both.write_bytes(certificate.read_bytes() + key.read_bytes())
    # The server takes plain connections too, for those who look at it; the crawl asks for TLS.
    options = ("--tlsMode", "preferTLS", "--tlsCertificateKeyFile", str(both))
    with MongoServer(options=options) as server, server.client() as client:
        yield (
            "MONGO_URI",
            lambda trusted: f"{server.uri('cars')}&tls=true&tlsCAFile={quote(str(trusted), safe='')}",
            lambda: client.cars.cars.count_documents({}) == 10,
        )


@contextmanager
def postgres(certificate: Path, key: Path) -> Iterator[Served]:
    with PostgresServer() as server:
        server.switch_on_tls(certificate, key)
        name = server.create_database()
        with server.connect(name) as connection:

            def arrived() -> bool:
                row = connection.execute("SELECT to_regclass('cars') IS NOT NULL").fetchone()
                if row != (True,):
                    return False
                return connection.execute("SELECT count(*) FROM cars").fetchone() == (10,)

            yield (
                "POSTGRES_DSN",
                lambda trusted: f"{server.dsn(name)} sslmode=verify-full sslrootcert={trusted}",
                arrived,
            )


@pytest.mark.parametrize("serve", [redis, mongo, postgres], ids=["redis", "mongo", "postgres"])
def test_a_server_is_believed_only_with_a_certificate_that_is_trusted(
    serve: Callable[[Path, Path], Iterator[Served]],
    stand_in: Callable[..., StandIn],
    tmp_path: Path,
) -> None:
    site = stand_in(10)
    certificate, key = tmp_path / "server.pem", tmp_path / "server.key"
    make_certificate(certificate, key)
    other = tmp_path / "other.pem"
    make_certificate(other, tmp_path / "other.key")

    def run(trusted: Path) -> Crawl:
        return crawl(site.url, tmp_path / "out", settings={"LOG_LEVEL": "WARNING"}, env={name: at(trusted)})

    with serve(certificate, key) as (name, at, arrived):
        with run(other) as refused:
            assert refused.wait(60) == 2, refused.log
        assert refused.log.count("\n") == 1, refused.log
        assert name in refused.log
        assert "certificate" in refused.log
        assert site.journal() == []
        assert not arrived()
        with run(certificate) as done:
            assert done.wait(60) == 0, done.log
        assert len(done.cars()) == 10
        assert arrived()
