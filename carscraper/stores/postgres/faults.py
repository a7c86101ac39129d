"""Whose fault an error of PostgreSQL is, and what it says in one line."""

from __future__ import annotations

import re
from enum import Enum, auto

import psycopg

from carscraper.exceptions import StoreError, StoreRefused, StoreUnavailable
from carscraper.stores.readings import one_line


class Fault(Enum):
    """Whose fault an error is."""

    SERVER = auto()
    """The server's, or that of the way there; it may pass."""
    SET_UP = auto()
    """That of the role, the database or its tables; it would come again for every record."""
    RECORD = auto()
    """That of one record among those that were sent."""


FAULTS = {
    "08": Fault.SERVER,  # connection
    "0A": Fault.SET_UP,  # feature not supported
    "22": Fault.RECORD,  # data
    "23": Fault.RECORD,  # constraint
    "25006": Fault.SERVER,  # read only: a standby, or a disk that was nearly full
    "28": Fault.SET_UP,  # authorisation
    "3D": Fault.SET_UP,  # no such database
    "3F": Fault.SET_UP,  # no such schema
    "40": Fault.SERVER,  # rolled back: deadlock, serialisation
    "42": Fault.SET_UP,  # rights, tables, columns
    "53": Fault.SERVER,  # disk full, out of memory, too many connections
    "54": Fault.RECORD,  # limits: size, depth
    "55P03": Fault.SERVER,  # lock not available
    "57": Fault.SERVER,  # statement timeout, shutdown, starting up
    "P0": Fault.RECORD,  # raised by somebody's trigger
}
"""By SQLSTATE or the beginning of it; what is not there is the server's, such as XX000 and 58030."""

ERRORS: dict[Fault, type[StoreError]] = {Fault.SERVER: StoreUnavailable, Fault.SET_UP: StoreRefused}
"""What is raised for faults that are not a record's."""

_SET_UP_MESSAGES = re.compile(
    r"authentication failed|no password supplied|does not exist|permission denied|pg_hba\.conf|not permitted"
    r"|certificate verify failed|does not support SSL|invalid \S+ value|could not match"
)
"""What is said of a connection that fails and would fail again, where there is no SQLSTATE: by libpq itself, which
speaks English, and by a server whose state cannot be had.
"""


def fault_of(error: psycopg.Error) -> Fault:
    """Whose fault an error on an open connection is."""
    state = error.sqlstate
    if state is not None:
        return _fault_of_state(state)
    if isinstance(error, psycopg.DataError):
        return Fault.RECORD
    return (
        Fault.SERVER if isinstance(error, psycopg.OperationalError | psycopg.InterfaceError) else Fault.SET_UP
    )


def _fault_of_state(state: str) -> Fault:
    return FAULTS.get(state) or FAULTS.get(state[:2]) or Fault.SERVER


def connection_fault(message: str, state: str | None = None) -> Fault:
    """Whose fault it is that a connection cannot be made: by the SQLSTATE of the server's answer, in whatever language
    it is; without one by what libpq says, and then a server that does not speak English is taken for one that is down.
    """
    if state is not None:
        return _fault_of_state(state)
    return Fault.SET_UP if _SET_UP_MESSAGES.search(message) else Fault.SERVER


def told(error: psycopg.Error) -> str:
    """The first that is said, with its detail."""
    diagnosis = error.diag
    parts = (diagnosis.message_primary or str(error).partition("\n")[0], diagnosis.message_detail)
    return one_line(": ".join(part for part in parts if part))
