"""Memory that a process needs no more, for the system again."""

from __future__ import annotations

import ctypes


def trim() -> None:
    """Let go of what is free between what is in use, too: else only the thread that had it can use it again. Does
    nothing where the C library is not glibc.
    """
    malloc_trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if malloc_trim is not None:
        malloc_trim(0)
