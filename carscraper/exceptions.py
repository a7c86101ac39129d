"""Every error of this project, in one tree.

CarscraperError
├── ConfigurationError    raised when a setting or an argument is refused at start
├── ApiError              raised when an answer departs from the shape that `api/` knows
├── FrontierError         raised when the frontier cannot do what it was asked
│   ├── FrontierRefused       raised when its server refuses the user, the password, or what the user may do
│   ├── FrontierUnavailable   raised when its server does not answer; worth another try
│   ├── FrontierLost          raised when the crawl that a worker is part of is gone from its server
│   ├── ForeignCrawl          raised when the crawl that is there is not the one that was asked for
│   ├── FrontierDamaged       raised when what is stored of the crawl contradicts itself: somebody else has changed it
│   └── ForeignFile           raised when a file is not ours, or of a version that we do not know
├── BatchDamaged          raised when a batch is not what was committed any more
├── CodecError            raised when a request cannot be written down or read back
├── StartUrlRefused       raised when what somebody has pushed cannot be made into a request
└── StoreError            raised when a database cannot do what it was asked
    ├── StoreUnavailable      raised when it does not answer, or not now; worth another try
    ├── StoreRefused          raised when it says no: password, rights, a layout of a later version
    └── SpoolDamaged          raised when what waits on disk for a database cannot be read
"""

from __future__ import annotations

from pathlib import Path


class CarscraperError(Exception):
    """Root of the tree: whatever this project raises by itself."""


class ConfigurationError(CarscraperError):
    """Raised when a setting or an argument is refused at start; the message names it."""


class ApiError(CarscraperError):
    """Raised when an answer of the API departs from its known shape.

    `path` leads to the value, as in `data[3].attributes.year`; it is empty when the whole body is meant.
    """

    def __init__(self, path: str, problem: str) -> None:
        super().__init__(f"{path}: {problem}" if path else problem)
        self.path = path
        self.problem = problem


class FrontierError(CarscraperError):
    """Raised when the frontier cannot do what it was asked."""


class FrontierRefused(FrontierError):
    """Raised when the frontier's server says no, and would again: a wrong password, no rights."""


class FrontierUnavailable(FrontierError):
    """Raised when the frontier's server does not answer in time; the same call may be made again."""


class FrontierLost(FrontierError):
    """Raised when the crawl is gone from the server: its data was lost or somebody dropped it."""


class ForeignCrawl(FrontierError):
    """Raised when the crawl that is there has another identity than the one that shall join it.

    `found` and `asked` are the two; `found` is empty for a crawl of an earlier release, which noted none.
    """

    def __init__(self, place: str, found: str, asked: str) -> None:
        known = (
            f"the crawl of {_shown(found)}"
            if found
            else "a crawl of an earlier release, which did not say of what,"
        )
        super().__init__(f"{place} holds {known} and not that of {_shown(asked)}")
        self.found = found
        self.asked = asked


class FrontierDamaged(FrontierError):
    """Raised when what the server keeps of the crawl contradicts itself or cannot be read: others have changed it."""


class ForeignFile(FrontierError):
    """Raised when a file is not one of ours, or of a version that this release does not know."""


class BatchDamaged(CarscraperError):
    """Raised when a committed batch is not what it was; the message names the file, and the line when that is known."""


class InUse(CarscraperError):
    """Raised when a process works on what nobody may work on; the message names it."""


class CodecError(CarscraperError):
    """Raised when a request cannot be written down, or what was written cannot be read back."""


class StartUrlRefused(CarscraperError):
    """Raised when what somebody has pushed to the start key cannot be made into a request, or into more than one may
    push.
    """


class StoreError(CarscraperError):
    """Raised when a database cannot do what it was asked."""


class StoreUnavailable(StoreError):
    """Raised when a database does not answer, or not now; the same call may be made again."""


class StoreRefused(StoreError):
    """Raised when a database says no, and would again: a wrong password, no rights, a layout of a later version."""


class SpoolDamaged(StoreError):
    """Raised when a record that waits on disk for a database is damaged, and it is not merely the torn end."""


def cause(error: BaseException) -> str:
    """What went wrong, on one line: the file and why, where the error knows them; of a bug, the line that it is in."""
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename}: {error.strerror}"
    if isinstance(error, CarscraperError):
        return str(error)
    at = error.__traceback__
    while at is not None and at.tb_next is not None:
        at = at.tb_next
    place = f" ({Path(at.tb_frame.f_code.co_filename).name}, line {at.tb_lineno})" if at else ""
    return " ".join(f"{type(error).__name__}: {error}{place}".split())


def _shown(identity: str) -> str:
    """On one line, whoever wrote it."""
    return "".join(char if char.isprintable() else "?" for char in identity[:1000]) or "(nothing said)"
