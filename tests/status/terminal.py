"""A command on a terminal of its own, and each screen that it has drawn."""

from __future__ import annotations

import os
import pty
import re
import signal
import subprocess
import termios
import threading
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

from tests.crawling import HANGS, wait_until
from tests.standin import ROOT

_STYLE = re.compile(r"\x1b\[[0-9;]*m")


class Terminal:
    """Runs the command on `columns` x `rows`; killed when it is left."""

    def __init__(
        self,
        command: Sequence[str],
        *,
        columns: int = 80,
        rows: int = 24,
        term: str = "xterm-256color",
        cwd: Path = ROOT,
    ) -> None:
        self._ours, theirs = pty.openpty()
        termios.tcsetwinsize(theirs, (rows, columns))
        self._written: list[bytes] = []
        self.process = subprocess.Popen(
            command,
            cwd=cwd,
            env={**os.environ, "TERM": term},
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
        )
        os.close(theirs)
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    @property
    def written(self) -> str:
        """All that it wrote, with what a terminal obeys."""
        return b"".join(self._written).decode(errors="replace")

    @property
    def screens(self) -> list[list[str]]:
        """The lines of each screen that is drawn to its end, without their style."""
        pieces = self.written.split("\x1b[H")[1:]
        return [
            _STYLE.sub("", piece.partition("\x1b[J")[0]).replace("\x1b[K", "").split("\r\n")
            for piece in pieces
            if "\x1b[J" in piece
        ]

    @property
    def last(self) -> str:
        """The last screen; empty before the first."""
        screens = self.screens
        return "\n".join(screens[-1]) if screens else ""

    def wait_for(self, *texts: str) -> str:
        """Return the first screen from now on that has all of these texts."""
        begin = len(self.screens)
        found: list[str] = []

        def is_there() -> bool:
            assert self.process.poll() is None, self.written
            found[:] = [
                "\n".join(one)
                for one in self.screens[begin:]
                if all(text in "\n".join(one) for text in texts)
            ]
            return bool(found)

        try:
            wait_until(is_there, what=f"a screen with {texts}", every=0.1)
        except AssertionError:
            raise AssertionError(f"no screen has {texts}; the last:\n{self.last}") from None
        return found[0]

    def interrupt(self) -> int:
        """Ctrl-C; returns the exit status."""
        self.process.send_signal(signal.SIGINT)
        status = self.process.wait(HANGS)
        self._reader.join(HANGS)
        return status

    def _read(self) -> None:
        while True:
            try:
                piece = os.read(self._ours, 65536)
            except OSError:  # the other side has been closed
                return
            if not piece:
                return
            self._written.append(piece)

    def __enter__(self) -> Terminal:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.process.kill()
        self.process.wait()
        self._reader.join(10)
        os.close(self._ours)
