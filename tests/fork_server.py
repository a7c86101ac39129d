"""Processes of `python -m module …` without the start of one: forked from a process that has imported all of it before.

    process = start([sys.executable, "-m", "scrapy", "list"], cwd=ROOT, env=env, stdout=log)

Nine tenths of what a test's crawl takes is the import of Scrapy and of this project. A fork is a process like any
other, a child of the tests' process: with its own directory, environment, arguments, standard streams and exit status,
ended by any signal. `subprocess` is for what is about a start itself, or changes what is found by an import.
"""

from __future__ import annotations

import atexit
import ctypes
import gc
import importlib
import itertools
import json
import os
import runpy
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from scrapy.utils.misc import walk_modules_iter

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = (
    "scrapy.commands",
    "scrapy.downloadermiddlewares",
    "scrapy.spidermiddlewares",
    "scrapy_durable",
    "carscraper",
)
"""Imported with all their modules, and what those stand on; none of them installs a reactor."""
READ_ENVIRONMENT = ("scrapy_durable.settings", "carscraper.settings")
"""Modules that read the environment when they are imported, so that each process does it again."""
_LARGEST = 1 << 18
"""Bytes of a command with its environment."""
_PR_SET_CHILD_SUBREAPER = 36


class Forked(subprocess.Popen[Any]):
    """Of `Popen`'s options, it takes those for the directory, the environment and the standard streams."""

    _lock = threading.Lock()
    _turns = itertools.cycle((0, 1))
    """Of two servers, so that no process has the hash seed of the one whose work it goes on with."""

    def _execute_child(self, args: Sequence[object], *options: Any) -> None:
        _, _, _, _, cwd, env, _, _, _, *pipes = options[:15]
        given = (pipes[0], pipes[3], pipes[5])
        streams = [number if end == -1 else end for number, end in enumerate(given)]
        command = list(map(str, args[2:])), str(cwd or Path.cwd()), dict(os.environ if env is None else env)
        with self._lock:
            server = _server(next(self._turns))
            socket.send_fds(server, [json.dumps(command).encode()], streams)
            self.pid = int(server.recv(_LARGEST))
        self._child_created = True
        self._close_pipe_fds(*pipes)


def start(
    command: Sequence[object], *, env: Mapping[str, str] | None = None, **options: Any
) -> subprocess.Popen[Any]:
    """Start a command: forked if it is a module of the tests' own interpreter, which nothing has to begin otherwise."""
    environment = os.environ if env is None else env
    forks = list(command[:2]) == [sys.executable, "-m"] and not _changes_start(environment)
    return (Forked if forks else subprocess.Popen)(command, env=env, **options)


def _changes_start(env: Mapping[str, str]) -> bool:
    """Whether it has what Python reads when it starts, or modules that may hide those which a fork has already."""
    usual = {str(ROOT), *_python_path(os.environ)}
    given = [Path(path) for path in _python_path(env) if path not in usual]
    return "PYTHONHASHSEED" in env or any(
        next(path.glob(modules), None) for path in given for modules in ("*.py", "*/__init__.py")
    )


def run(command: Sequence[object], *, timeout: float, **options: Any) -> subprocess.CompletedProcess[Any]:
    """What the command has said, once it has ended. One that has not ended in time is killed."""
    with start(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options) as process:
        try:
            out, err = process.communicate(timeout=timeout)
        except BaseException:
            process.kill()
            raise
    return subprocess.CompletedProcess(command, process.returncode, out, err)


@cache
def _server(turn: int) -> socket.socket:
    """Where to ask for a fork in this turn. The process that forks ends when this end of the connection is closed."""
    # Orphans become children of this process: so do forks, whose parent ends at once.
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    ours, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _LARGEST)
    with its:
        command = [sys.executable, "-m", __name__, str(its.fileno())]
        server = subprocess.Popen(command, cwd=ROOT, pass_fds=[its.fileno()])
    atexit.register(server.wait)
    atexit.register(ours.close)  # called before
    return ours


def _serve(connection: socket.socket) -> tuple[bytes, list[int]]:
    """Fork for each command that comes; returns in each fork, with its command and its standard streams."""
    while True:
        command, streams, _, _ = socket.recv_fds(connection, _LARGEST, 3)
        if not command:
            os._exit(0)
        told, tells = os.pipe()
        between = os.fork()
        if not between:
            parent = os.getpid()
            if not (pid := os.fork()):
                while os.getppid() == parent:  # which is about to end, and then the tests' process is
                    time.sleep(0.001)
                for descriptor in (connection.detach(), told, tells):
                    os.close(descriptor)
                return command, streams
            os.write(tells, b"%d" % pid)
            os._exit(0)
        os.waitpid(between, 0)
        connection.send(os.read(told, _LARGEST))
        for descriptor in (told, tells, *streams):
            os.close(descriptor)


def _become(command: bytes, streams: list[int], path: list[str]) -> None:
    """Have all that a process is given as if Python had started with that command. `path` is where it finds modules
    but for those of its directory and its environment.
    """
    sys.argv, cwd, environment = json.loads(command)
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(environment)
    sys.path[:] = [cwd, *dict.fromkeys((*_python_path(os.environ), *path))]  # as `site` does, each once
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    for number, (name, mode) in enumerate((("stdin", "r"), ("stdout", "w"), ("stderr", "w"))):
        own = getattr(sys, name)
        stream = os.fdopen(number, mode, encoding=own.encoding, errors=own.errors, closefd=False)
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)
    sys.stderr.reconfigure(line_buffering=True)
    for name in READ_ENVIRONMENT:
        importlib.reload(sys.modules[name])


def _python_path(env: Mapping[str, str]) -> list[str]:
    return [path for path in env.get("PYTHONPATH", "").split(os.pathsep) if path]


if __name__ == "__main__":
    for package in PACKAGES:
        list(walk_modules_iter(package))
    del sys.modules["carscraper.demo.__main__"]  # which is to run as one
    gc.collect()
    gc.freeze()  # what a fork does not write to it need not copy
    own = [path for path in sys.path[1:] if path not in _python_path(os.environ)]
    _become(*_serve(socket.socket(fileno=int(sys.argv[1]))), own)
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
