"""Every error of this site's crawl; the others are the core's (`scrapy_durable.exceptions`), of which these are part.

DurableError
├── InvalidAnswer
│   └── ApiError              raised when an answer departs from the shape that `api/` knows
├── InUse                 raised when a process works on what nobody may work on
└── StoreError            raised when a database cannot do what it was asked
    ├── StoreUnavailable      raised when it does not answer, or not now; worth another try
    ├── StoreRefused          raised when it says no: password, rights, a layout of a later version
    └── BacklogDamaged    raised when what waits on disk for a database cannot be read
"""

from __future__ import annotations

from scrapy_durable.exceptions import DurableError, InvalidAnswer


class ApiError(InvalidAnswer):
    """Raised when an answer of the API departs from its known shape.

    `path` leads to the value, as in `data[3].attributes.year`; it is empty when the whole body is meant.
    """

    def __init__(self, path: str, problem: str) -> None:
        super().__init__(f"{path}: {problem}" if path else problem)
        self.path = path
        self.problem = problem


class InUse(DurableError):
    """Raised when a process works on what nobody may work on; the message names it."""


class StoreError(DurableError):
    """Raised when a database cannot do what it was asked."""


class StoreUnavailable(StoreError):
    """Raised when a database does not answer, or not now; the same call may be made again."""


class StoreRefused(StoreError):
    """Raised when a database says no, and would again: a wrong password, no rights, a layout of a later version."""


class BacklogDamaged(StoreError):
    """Raised when a record that waits on disk for a database is damaged, and it is not merely the torn end."""
