"""Every error of the core, in one tree; a site's own derive from it.

DurableError
├── ConfigurationError    raised when a setting or an argument is refused at start
├── InvalidAnswer         raised by a callback when a response is no answer, and has to be asked for again
├── FrontierError         raised when the frontier cannot do what it was asked
│   ├── FrontierRefused       raised when its server refuses the user, the password, or what the user may do
│   ├── FrontierUnavailable   raised when its server does not answer; worth another try
│   ├── FrontierLost          raised when the crawl that a worker is part of is gone from its server
│   ├── ForeignCrawl          raised when the crawl that is there is not the one that was asked for
│   ├── LogAbandoned          raised when a worker's item log was given up by `scrapy queue abandon`
│   ├── FrontierDamaged       raised when what is stored of the crawl contradicts itself: somebody else has changed it
│   └── ForeignFile           raised when a file is not ours, or of a version that we do not know
├── CodecError            raised when a request cannot be serialized, or what was serialized cannot be read back
│   └── KeptElsewhere         raised when a request is in the memory of another worker, or was when that ended
├── ItemLogInUse          raised when another process has the item log
├── ItemLogDamaged        raised when what was flushed to an item log is not there any more as it was
└── StartUrlRefused       raised when what somebody has pushed cannot be made into a request
"""

from __future__ import annotations

from pathlib import Path


class DurableError(Exception):
    """Root of the tree: whatever this project raises by itself."""


class ConfigurationError(DurableError):
    """Raised when a setting or an argument is refused at start; the message names it."""


class InvalidAnswer(DurableError):
    """Raised by a callback, or whatever reads an answer for it, when a response is no answer: it is asked for again.

    `path` leads to what is wrong in it, as in `data[3].year`; it is empty when the whole body is meant.
    """

    path: str = ""


class FrontierError(DurableError):
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


class OtherRelease(FrontierError):
    """Raised when the state of a crawl is of a version that this release does not know; nothing of it has changed.

    `place` is where it is kept, `way_out` what to do without the release that began it.
    """

    def __init__(self, place: str, found: str, known: str, way_out: str) -> None:
        super().__init__(
            f"{place} holds a crawl of {_release(found, known)} (version {_shown(found)[:20]} of its state, and not "
            f"{known}): finish it with that release, or {way_out}"
        )


class LogAbandoned(FrontierError):
    """Raised when the item log of this worker was given up: what was unconfirmed in it is no part of the crawl."""

    def __init__(self, name: str) -> None:
        super().__init__(
            f"the item log {name} was given up by 'scrapy queue abandon': move it away to go on with a new one"
        )
        self.name = name


class FrontierDamaged(FrontierError):
    """Raised when what the server keeps of the crawl contradicts itself or cannot be read: others have changed it."""


class ForeignFile(FrontierError):
    """Raised when a file is not one of ours, or a response store of a version that this release does not know."""


class CodecError(DurableError):
    """Raised when a request cannot be serialized, or what was serialized cannot be read back."""


class KeptElsewhere(CodecError):
    """Raised when a request could not be serialized, and this process is not the one that has it; `worker` was."""

    def __init__(self, worker: str) -> None:
        super().__init__("it is in the memory of another worker, or was")
        self.worker = worker


class ItemLogInUse(DurableError):
    """Raised when another process has the item log of that directory."""

    def __init__(self, directory: Path) -> None:
        super().__init__(f"{directory} is in use: another process has the item log in it")


class ItemLogDamaged(DurableError):
    """Raised when what was flushed to an item log is not there any more as it was; nothing of it has changed.

    `offset` is the place in the file, in bytes.
    """

    def __init__(self, path: Path, offset: int, problem: str) -> None:
        super().__init__(f"{path}, byte {offset}: {problem}")
        self.path = path
        self.offset = offset


class StartUrlRefused(DurableError):
    """Raised when what somebody has pushed to the start key cannot be made into a request, or into more than one may
    push.
    """


def cause(error: BaseException) -> str:
    """What went wrong, on one line: the file and why, where the error knows them; of a bug, the line that it is in."""
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename}: {error.strerror}"
    if isinstance(error, DurableError):
        return str(error)
    at = error.__traceback__
    while at is not None and at.tb_next is not None:
        at = at.tb_next
    place = f" ({Path(at.tb_frame.f_code.co_filename).name}, line {at.tb_lineno})" if at else ""
    return " ".join(f"{type(error).__name__}: {error}{place}".split())


def _release(found: str, known: str) -> str:
    if not (found.isdecimal() and len(found) < 20):
        return "another release"
    return "a newer release" if int(found) > int(known) else "an older release"


def _shown(identity: str) -> str:
    """On one line, whoever wrote it."""
    return "".join(char if char.isprintable() else "?" for char in identity[:1000]) or "(nothing said)"
