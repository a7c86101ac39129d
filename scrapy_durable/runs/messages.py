"""What people are told when something is wrong with a run: whether, and in which words; pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from scrapy_durable.plain import plain

if TYPE_CHECKING:
    from scrapy_durable.runs.file import Run

_MOST, _LONGEST = 5, 200
"""Lines of a kind, and characters of one: a message is read on a telephone."""
_MARKS = str.maketrans({"@": "(at)", "<": "(", ">": ")", "[": "(", "]": ")", "`": "'", "*": "+"})
"""What chats take for a mention, a link or markup."""
COMPLETE = "complete"


@dataclass(frozen=True, slots=True)
class Message:
    """Plain text, harmless wherever it is shown."""

    title: str
    body: str


def is_told(run: Run, *, concludes: bool) -> bool:
    """Whether people are told of a run that has ended. `concludes`: it has ended the crawl for all workers; of the
    others, those are told of that have failed by themselves.
    """
    if run.get("findings"):
        return True
    if concludes:
        return run.get("verdict") != COMPLETE
    return bool(run.get("failed"))


def of_run(project: str, run: Run) -> Message:
    """A run that has ended."""
    verdict = str(run.get("verdict", "unknown"))
    findings = [one for one in run.get("findings") or () if isinstance(one, Mapping)]
    word = verdict if verdict != COMPLETE else f"complete, {len(findings)} unusual"
    body = [f"exit status {run.get('exit_status')}: {verdict}", *_some(run.get("reasons") or ())]
    if findings:
        body += ["unusual:", *_some(f"{one.get('severity')}: {one.get('sentence')}" for one in findings)]
    return _message(project, run, word, [*body, f"next: {_next(run)}"])


def of_killed(project: str, run: Run) -> Message:
    """A run that has left no last word."""
    body = [
        f"begun {run.get('begun')}, its process {run.get('pid')} is gone without a last word",
        "next: look for a kill (memory, a restart) in the system's log; the same command goes on with what is kept",
    ]
    return _message(project, run, "killed", body)


def of_overdue(project: str, problems: Sequence[str], check: str) -> Message:
    """What `scrapy runs check` has found, the worst first."""
    return Message(
        _line(f"{project}: {problems[0]}"), "\n".join(map(_line, [*_some(problems), f"next: {check}"]))
    )


def of_test(project: str, host: str) -> Message:
    """What `scrapy runs notify --test` sends."""
    return Message(
        _line(f"{project}: a test"), _line(f"sent from {host}: whoever reads this is told when a run fails")
    )


def _message(project: str, run: Run, word: str, lines: Iterable[str]) -> Message:
    spider = run["spider"]
    head = [f"project {project}, spider {spider}, run {run['run']} on {run.get('host')}"]
    return Message(_line(f"{project}: {spider} {word}"), "\n".join(map(_line, [*head, *lines])))


def _next(run: Run) -> str:
    if run.get("verdict") == COMPLETE:
        return f"scrapy runs show {run['run']}"
    if run.get("dead_letters"):
        return "scrapy queue dead, then scrapy queue retry-dead and the same command again"
    return f"scrapy runs show {run['run']}, then the same command again"


def _some(lines: Iterable[Any]) -> list[str]:
    found = [str(line) for line in lines]
    more = [f"and {len(found) - _MOST} more"] if len(found) > _MOST else []
    return [f"- {line}" for line in [*found[:_MOST], *more]]


def _line(text: str) -> str:
    """On one line, without what a terminal or a chat would obey."""
    return plain(text).translate(_MARKS)[:_LONGEST]
