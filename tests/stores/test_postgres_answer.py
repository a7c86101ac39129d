"""A PostgreSQL server that lets nobody in is understood whatever language it speaks."""

from __future__ import annotations

import shutil
import socketserver
import struct
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest

from carscraper.exceptions import StoreError, StoreRefused, StoreUnavailable
from carscraper.stores.postgres.database import PostgresDatabase
from tests.crawling import crawl
from tests.postgres_server import PostgresServer
from tests.standin import StandIn

SECRET = "canary-71c4"
NO_GERMAN = not (
    shutil.which("localedef")
    and Path("/usr/share/i18n/locales/de_DE").exists()
    and list(Path("/usr/share/locale/de/LC_MESSAGES").glob("postgres-*.mo"))
)


async def refusal(dsn: str) -> StoreError:
    """What opening it raises."""
    database = PostgresDatabase.from_address(dsn)
    try:
        await database.open()
    except StoreError as error:
        return error
    finally:
        await database.close()
    raise AssertionError("it was let in")


# A server that says so and nothing else


class Doorman(socketserver.ThreadingTCPServer):
    """Lets nobody in, with that severity, SQLSTATE and message."""

    def __init__(self, severity: str, state: str, message: str) -> None:
        fields = (b"S", severity), (b"V", "FATAL"), (b"C", state), (b"M", message)
        body = b"".join(code + text.encode() + b"\0" for code, text in fields) + b"\0"
        self.answer = b"E" + struct.pack("!i", len(body) + 4) + body
        super().__init__(("127.0.0.1", 0), Refusal)

    @property
    def dsn(self) -> str:
        """Without encryption, so that the first that a client says is who it is."""
        port = self.server_address[1]
        return f"host=127.0.0.1 port={port} dbname=x user=y sslmode=disable gssencmode=disable"


class Refusal(socketserver.StreamRequestHandler):
    """One connection to the doorman."""

    server: Doorman

    def handle(self) -> None:
        (length,) = struct.unpack("!i", self.rfile.read(4))
        self.rfile.read(length - 4)
        self.wfile.write(self.server.answer)


@contextmanager
def doorman(severity: str, state: str, message: str) -> Iterator[Doorman]:
    with Doorman(severity, state, message) as server:
        serving = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        serving.start()
        try:
            yield server
        finally:
            server.shutdown()
            serving.join()


@pytest.mark.parametrize(
    ("severity", "state", "message", "kind"),
    [
        ("FATAL", "28P01", "Passwort-Authentifizierung fehlgeschlagen", StoreRefused),
        ("FATAL", "28000", "kein pg_hba.conf-Eintrag", StoreRefused),
        ("FATAL", "3D000", "Datenbank »x« existiert nicht", StoreRefused),
        ("FATAL", "42501", "keine Berechtigung für Datenbank »x«", StoreRefused),
        ("ВАЖНО", "28P01", "пользователь не прошёл проверку подлинности", StoreRefused),
        ("FATAL", "57P03", "das Datenbanksystem startet", StoreUnavailable),
        ("FATAL", "53300", "tut mir leid, schon zu viele Verbindungen", StoreUnavailable),
        ("ВАЖНО", "57P03", "система баз данных запускается", StoreUnavailable),
        ("FATAL", "57P03", "permission denied, says one that is starting up", StoreUnavailable),
    ],
)
async def test_its_state_says_whether_to_wait(
    severity: str, state: str, message: str, kind: type[StoreError]
) -> None:
    with doorman(severity, state, message) as server:
        error = await refusal(server.dsn)
    assert type(error) is kind
    assert message in str(error)


# A real one that speaks German


@pytest.fixture(scope="module")
def german() -> Iterator[PostgresServer]:
    if NO_GERMAN:
        pytest.skip("this machine has no German for PostgreSQL (packages locales, postgresql)")
    with tempfile.TemporaryDirectory(prefix="locales-") as locales:
        Path(locales).chmod(0o755)  # the server's user reads it
        command = ["localedef", "-i", "de_DE", "-f", "UTF-8", f"{locales}/de_DE.UTF-8"]
        subprocess.run(command, check=True, capture_output=True, timeout=120)
        with PostgresServer(options={"lc_messages": "de_DE.UTF-8"}, env={"LOCPATH": locales}) as server:
            with server.connect() as connection, pytest.raises(psycopg.Error, match="existiert nicht"):
                connection.execute("SELECT * FROM nowhere")
            yield server


async def test_a_german_refusal_is_a_refusal(german: PostgresServer) -> None:
    wrong_password = await refusal(german.dsn(user=SECRET, password=SECRET))
    assert type(wrong_password) is StoreRefused
    assert "Passwort-Authentifizierung" in str(wrong_password)
    assert SECRET not in str(wrong_password)
    no_database = await refusal(german.dsn("nowhere"))
    assert type(no_database) is StoreRefused
    assert "Datenbank »nowhere« existiert nicht" in str(no_database)


async def test_a_german_server_without_a_connection_to_spare_is_worth_another_try(
    german: PostgresServer,
) -> None:
    name, role = german.create_database(), german.create_role(SECRET)
    with german.connect() as connection:
        connection.execute(f"ALTER ROLE {role} CONNECTION LIMIT 0".encode())
    full = await refusal(german.dsn(name, user=role, password=SECRET))
    assert type(full) is StoreUnavailable
    assert "zu viele Verbindungen" in str(full)


async def test_rights_that_are_missing_on_a_german_server_are_a_refusal(german: PostgresServer) -> None:
    """Where there is a connection, the state comes with the error."""
    name, role = german.create_database(), german.create_role(SECRET)
    no_rights = await refusal(german.dsn(name, user=role, password=SECRET))
    assert type(no_rights) is StoreRefused


def test_a_crawl_is_refused_at_once_in_german(
    german: PostgresServer, stand_in: Callable[..., StandIn], tmp_path: Path
) -> None:
    site = stand_in(20)
    env = {"POSTGRES_DSN": german.dsn(password=SECRET)}
    with crawl(site.url, tmp_path, settings={"LOG_LEVEL": "WARNING"}, env=env) as run:
        assert run.wait(60) == 2, run.log
    assert run.log.count("\n") == 1, run.log
    assert "POSTGRES_DSN" in run.log
    assert "fehlgeschlagen" in run.log
    assert SECRET not in run.log
    assert site.journal() == []


async def test_nothing_of_the_second_look_is_left_open() -> None:
    with doorman("FATAL", "3D000", "Datenbank »x« existiert nicht") as server:
        for _ in range(3):
            await refusal(server.dsn)
    open_files = [str(link.readlink()) for link in Path("/proc/self/fd").iterdir() if link.is_symlink()]
    assert not any("memfd:trace" in name for name in open_files)
