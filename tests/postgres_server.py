"""A real PostgreSQL server on a free port, with a directory of its own, ended by its process."""

from __future__ import annotations

import contextlib
import os
import pwd
import secrets
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import psycopg
from psycopg import sql
from psycopg.conninfo import make_conninfo

from tests.server_process import STARTUP_SECONDS, ServerProcess, wait_until_listening

SUPERUSER = "postgres"
"""Role in the server, and the user that runs it when the tests are run by root, which PostgreSQL refuses."""


def server_binary(name: str) -> Path:
    """`postgres` or `initdb`: of Debian's newest package, which keeps them out of PATH, or from PATH."""
    packaged = [path for path in Path("/usr/lib/postgresql").glob(f"*/bin/{name}") if path.exists()]
    if packaged:
        return max(packaged, key=lambda path: float(path.parts[-3]))
    if found := shutil.which(name):
        return Path(found)
    raise RuntimeError(f"no {name} on this machine: make servers")


class PostgresServer(ServerProcess):
    """A server that runs while the `with` block does; it can be killed and started again on the same port and
    data. It asks for passwords.

    `options` are lines of postgresql.conf; `env` is what it finds in its environment beside ours. `fsync` is off unless
    they say otherwise: a kill loses nothing that was written to the kernel, and the tests do not switch off the
    machine.
    """

    def __init__(
        self, *, options: Mapping[str, str] | None = None, env: Mapping[str, str] | None = None
    ) -> None:
        super().__init__()
        self._env = {**os.environ, **(env or {})}
        self._directory = Path(tempfile.mkdtemp(prefix="postgres-"))
        self._data = self._directory / "data"
        self._log = self._directory / "server.log"
        self._password = secrets.token_hex(16)
        self._options = {
            "listen_addresses": "127.0.0.1",
            "unix_socket_directories": "",
            "max_connections": "30",
            "fsync": "off",
            **(options or {}),
        }
        self._initialise()

    def _initialise(self) -> None:
        password = self._directory / "password"
        password.write_text(self._password)
        if "user" in (user := self._user()):
            for path in (self._directory, password):
                shutil.chown(path, user["user"])
        command = [
            str(server_binary("initdb")),
            f"--pgdata={self._data}",
            f"--username={SUPERUSER}",
            f"--pwfile={password}",
            "--auth=scram-sha-256",
            "--encoding=UTF8",
            "--locale=C",
            "--no-sync",
        ]
        done = subprocess.run(
            command, cwd=self._directory, capture_output=True, text=True, timeout=60, check=False, **user
        )
        if done.returncode:
            raise RuntimeError(done.stderr)

    @staticmethod
    def _user() -> dict[str, Any]:
        """Arguments of `subprocess` for the user that runs the server: oneself, but for root."""
        if os.geteuid() != 0:
            return {}
        user = pwd.getpwnam(SUPERUSER)
        return {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}

    def dsn(
        self,
        database: str = "postgres",
        *,
        user: str = SUPERUSER,
        password: str | None = None,
        port: int | None = None,
    ) -> str:
        """How to connect, as key=value; by default as superuser, straight to the server."""
        return make_conninfo(
            host="127.0.0.1",
            port=port or self.port,
            dbname=database,
            user=user,
            password=self._password if password is None else password,
        )

    def start(self) -> None:
        """Start the server, and wait until it has recovered and takes connections."""
        command = [str(server_binary("postgres")), "-D", str(self._data), "-p", str(self.port)]
        for option, value in self._options.items():
            command += ["-c", f"{option}={value}"]
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                command,
                cwd=self._directory,
                env=self._env,
                stdout=log,
                stderr=log,
                start_new_session=True,
                **self._user(),
            )
        try:
            wait_until_listening(self.port, self._process)
            self._wait_until_recovered()
        except RuntimeError as error:
            self.kill()
            raise RuntimeError(f"{error}\n{self._log.read_text()}") from None

    def _wait_until_recovered(self) -> None:
        deadline = time.monotonic() + STARTUP_SECONDS
        while True:
            try:
                self.connect().close()
            except psycopg.OperationalError as error:
                if time.monotonic() > deadline:
                    raise RuntimeError("the server does not take connections") from error
                time.sleep(0.01)
            else:
                return

    def connect(self, database: str = "postgres") -> psycopg.Connection[Any]:
        """A plain connection as superuser, to look at the server from outside; each statement commits."""
        return psycopg.connect(self.dsn(database), autocommit=True, connect_timeout=5)

    def create_database(self, *, owner: str | None = None) -> str:
        """Make an empty database, and return its name."""
        name = f"cars_{secrets.token_hex(6)}"
        with self.connect() as connection:
            connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
            if owner is not None:
                change = sql.SQL("ALTER DATABASE {} OWNER TO {}")
                connection.execute(change.format(sql.Identifier(name), sql.Identifier(owner)))
        return name

    def create_role(self, password: str) -> str:
        """Make a role that may log in and nothing else, and return its name."""
        name = f"role_{secrets.token_hex(6)}"
        create = sql.SQL("CREATE ROLE {} LOGIN PASSWORD {}")
        with self.connect() as connection:
            connection.execute(create.format(sql.Identifier(name), sql.Literal(password)))
        return name

    def switch_on_tls(self, certificate: Path, key: Path) -> None:
        """Have it speak TLS too, with that certificate, from the next connection on."""
        for name, path in (("ssl_cert_file", certificate), ("ssl_key_file", key)):
            inside = self._directory / path.name
            shutil.copy(path, inside)
            inside.chmod(0o600)
            if "user" in (user := self._user()):
                shutil.chown(inside, user["user"])
            with self.connect() as connection:
                change = sql.SQL("ALTER SYSTEM SET {} = {}")
                connection.execute(change.format(sql.Identifier(name), sql.Literal(str(inside))))
        with self.connect() as connection:
            connection.execute("ALTER SYSTEM SET ssl = on")
            connection.execute("SELECT pg_reload_conf()")
        deadline = time.monotonic() + STARTUP_SECONDS
        while not self._speaks_tls():
            if time.monotonic() > deadline:
                raise RuntimeError(f"no TLS\n{self._log.read_text()}")
            time.sleep(0.01)

    def _speaks_tls(self) -> bool:
        try:
            psycopg.connect(f"{self.dsn()} sslmode=require", connect_timeout=5).close()
        except psycopg.OperationalError:
            return False
        return True

    def kill(self) -> None:
        """End the server and all its backends as a power failure would."""
        if self._process is None:
            return
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGSTOP)  # so that it starts no more of them
        backends = _children(self.pid)
        for backend in backends:  # before it: they would see its end, and tidy up
            with contextlib.suppress(ProcessLookupError):
                os.kill(backend, signal.SIGKILL)
        self._process.kill()
        self._process.wait(10)
        self._process = None
        deadline = time.monotonic() + 10
        while any(map(_runs, backends)):
            if time.monotonic() > deadline:
                raise RuntimeError("backends outlive SIGKILL")
            time.sleep(0.005)

    def close(self) -> None:
        """End the server, which no longer writes what it has in memory, and remove its directory."""
        if self._process is not None:
            self._process.send_signal(signal.SIGQUIT)
            try:
                self._process.wait(10)
                self._process = None
            except subprocess.TimeoutExpired:
                self.kill()
        shutil.rmtree(self._directory, ignore_errors=True)


def _children(pid: int) -> list[int]:
    """The processes that a process has started and that have not ended."""
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def _runs(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state not in "ZX"
