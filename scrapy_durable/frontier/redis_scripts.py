"""The scripts in `lua/` as a server gets them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha1
from importlib.resources import files

Call = tuple[Sequence[bytes], Sequence[str | int | bytes]]
"""Keys and arguments of one call of a script."""


@dataclass(frozen=True, slots=True)
class Script:
    """The text of a script as the server gets it, and its hash, by which it is called."""

    text: str
    sha: str


def load_script(operation: str, flags: str | None = None) -> Script:
    """The script `lua/<operation>.lua`, behind the pieces that its header names; `flags` stand in for the
    header's.
    """
    folder = files("scrapy_durable.frontier").joinpath("lua")
    body = folder.joinpath(f"{operation}.lua").read_text("utf-8")
    header = dict(
        line[3:].split(": ", 1) for line in body.splitlines() if line.startswith(("-- Uses: ", "-- Flags: "))
    )
    flags = header.get("Flags", "") if flags is None else flags
    pieces = ["keys.lua", *header.get("Uses", "").split()]
    texts = [folder.joinpath(piece).read_text("utf-8") for piece in pieces]
    shebang = f"#!lua flags={flags}\n" if flags else "#!lua\n"
    text = shebang + "\n".join([*texts, body])
    return Script(text, sha1(text.encode(), usedforsecurity=False).hexdigest())
