"""Messages to people, through Apprise, by a process of their own.

A process, since Apprise's plug-ins and what these use log addresses, which hold tokens, and may hang: nothing that it
says is read, and it is killed when its time is over. The reactor goes on meanwhile.
"""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from collections.abc import Sequence
from importlib.util import find_spec

import orjson

from scrapy_durable.exceptions import cause
from scrapy_durable.runs.messages import Message

logger = logging.getLogger(__name__)

MISSING = "Apprise is not installed: pip install apprise"


def is_installed() -> bool:
    """Whether messages can be sent at all; imports nothing."""
    return find_spec("apprise") is not None


def send(addresses: Sequence[str], message: Message, timeout: float) -> str | None:
    """Send a message to all; blocks for `timeout` seconds at most. Returns what went wrong, without any address; None
    when all have taken it.
    """
    if not is_installed():
        return MISSING
    asked = orjson.dumps({"addresses": addresses, "title": message.title, "body": message.body})
    try:
        done = subprocess.run(
            [sys.executable, "-P", "-m", "scrapy_durable.runs.sending"],
            input=asked,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
            timeout=timeout,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"not all have taken it within {timeout:g} seconds"
    except OSError as error:
        return cause(error)
    return _read(done.stdout, len(addresses))


def tell(addresses: Sequence[str], message: Message, timeout: float) -> None:
    """The same; what went wrong is one warning."""
    problem = send(addresses, message, timeout)
    if problem is not None:
        logger.warning("Nobody is sure to know what is wrong: a notification was not sent: %s", problem)


def _read(said: bytes, count: int) -> str | None:
    """The process says for each address whether it is one (1, 0), and whether it has taken the message."""
    try:
        known, taken = orjson.loads(said)
        unknown = [str(number) for number, one in enumerate(known, 1) if not one]
        silent = [
            str(number)
            for number, (one, took) in enumerate(zip(known, taken, strict=True), 1)
            if one and not took
        ]
    except (ValueError, TypeError):
        return "the process that sends it has failed"
    problems = []
    if unknown:
        problems.append(f"address {' and '.join(unknown)} of {count} is none that Apprise knows")
    if silent:
        problems.append(f"address {' and '.join(silent)} of {count} has not taken it")
    return "; ".join(problems) or None
