"""A real MongoDB server on a free port, with a directory of its own, ended by its process."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pymongo import MongoClient
from pymongo.errors import OperationFailure, PyMongoError

from tests.server_process import STARTUP_SECONDS, ServerProcess, wait_until_listening

FAIL_POINTS = ("--setParameter", "enableTestCommands=1")
"""Options of a server that `MongoServer.failing` is used on."""
_SET = "rs0"
_ROOT = ("root", "root-word")
"""User and password of who may do everything, on a server that asks for passwords."""


def mongod_binary() -> str | None:
    """The server of a Python package; None on a machine without that package."""
    spec = importlib.util.find_spec("fiftyone")
    for folder in (spec.submodule_search_locations or []) if spec else []:
        binary = Path(folder) / "db" / "bin" / "mongod"
        if binary.exists():
            return str(binary)
    return None


class MongoServer(ServerProcess):
    """A server that runs while the `with` block does; it can be killed and started again on the same port and
    data.

    `replica_set` makes it a set of one node. `passwords` lets in only users of `add_user`; not for a set.
    `options` are further arguments of `mongod`.
    """

    def __init__(
        self, *, replica_set: bool = False, passwords: bool = False, options: tuple[str, ...] = ()
    ) -> None:
        super().__init__()
        binary = mongod_binary()
        if binary is None:
            raise RuntimeError("there is no mongod")
        self._directory = Path(tempfile.mkdtemp(prefix="mongo-"))
        self._replica_set = replica_set
        self._passwords = passwords
        (self._directory / "data").mkdir()
        self._command = [
            *(binary, "--quiet", "--bind_ip", "127.0.0.1", "--port", str(self.port), "--nounixsocket"),
            *("--dbpath", str(self._directory / "data"), "--logpath", str(self._log), "--logappend"),
            *("--wiredTigerCacheSizeGB", "0.25", "--setParameter", "diagnosticDataCollectionEnabled=false"),
            *(("--replSet", _SET, "--oplogSize", "64") if replica_set else ()),
            *(("--auth",) if passwords else ()),
            *options,
        ]

    @property
    def _log(self) -> Path:
        return self._directory / "server.log"

    def uri(self, database: str = "", user: str = "", port: int | None = None) -> str:
        """Where `database` is; through a proxy on `port`, if given. `user` is `name:password`."""
        at = f"{user}@" if user else ""
        return (
            f"mongodb://{at}127.0.0.1:{port or self.port}/{database}?directConnection=true&authSource=admin"
        )

    def start(self) -> None:
        """Start the server, and wait until it takes writes."""
        self._process = subprocess.Popen(self._command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            wait_until_listening(self.port, self._process)
            self._wait_until_writable()
        except RuntimeError as error:
            self.kill()
            raise RuntimeError(self._log.read_text() if self._log.exists() else str(error)) from None

    def _wait_until_writable(self) -> None:
        deadline = time.monotonic() + STARTUP_SECONDS
        with self._anonymous() as client:
            while True:
                try:
                    if client.admin.command("hello")["isWritablePrimary"]:
                        break
                    if self._replica_set:
                        self._initiate(client)
                except PyMongoError as error:
                    if time.monotonic() > deadline:
                        raise RuntimeError("the server does not answer") from error
                if time.monotonic() > deadline:
                    raise RuntimeError("the server takes no writes")
                time.sleep(0.01)
            if self._passwords:
                self._add_root(client)

    def _initiate(self, client: MongoClient[dict[str, Any]]) -> None:
        config = {"_id": _SET, "members": [{"_id": 0, "host": f"127.0.0.1:{self.port}"}]}
        try:
            client.admin.command("replSetInitiate", config)
        except OperationFailure as error:
            if error.code != 23:  # initiated already, and on its way to being the primary
                raise

    def _add_root(self, client: MongoClient[dict[str, Any]]) -> None:
        name, password = _ROOT
        try:
            client.admin.command("createUser", name, pwd=password, roles=["root"])
        except OperationFailure as error:
            if error.code != 13:  # there is a user already, and so nobody may come in without a password
                raise

    def add_user(self, name: str, password: str, *roles: dict[str, str]) -> None:
        """Let a user in, with roles such as `{"role": "read", "db": "cars"}`."""
        with self.client() as client:
            client.admin.command("createUser", name, pwd=password, roles=list(roles))

    def _anonymous(self) -> MongoClient[dict[str, Any]]:
        return MongoClient(self.uri(), socketTimeoutMS=5000, tz_aware=True)

    def client(self) -> MongoClient[dict[str, Any]]:
        """A plain client that may do everything, to look at the server from outside."""
        if not self._passwords:
            return self._anonymous()
        name, password = _ROOT
        return MongoClient(self.uri(), username=name, password=password, socketTimeoutMS=5000, tz_aware=True)

    @contextmanager
    def failing(self, *commands: str, mode: object = "alwaysOn", **how: object) -> Iterator[None]:
        """Have the server fail commands such as `update` while the block runs, as its `failCommand` is told to:
        `errorCode`, `writeConcernError`, `closeConnection`. Needs `FAIL_POINTS`.
        """
        data = {"failCommands": list(commands), **how}
        with self.client() as client:
            client.admin.command("configureFailPoint", "failCommand", mode=mode, data=data)
            try:
                yield
            finally:
                client.admin.command("configureFailPoint", "failCommand", mode="off")

    def close(self) -> None:
        """End the server and remove its directory."""
        self.kill()
        shutil.rmtree(self._directory, ignore_errors=True)
