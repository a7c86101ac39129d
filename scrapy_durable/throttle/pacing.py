"""What this worker has heard from the sites since it last told the frontier, and the changes of pace that
follow.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from scrapy_durable.exceptions import ConfigurationError
from scrapy_durable.frontier.contract import Pace, PaceChange
from scrapy_durable.throttle.policy import SLOWER, TOO_MUCH, Answer, Policy, next_delay

if TYPE_CHECKING:
    from scrapy.settings import BaseSettings


class Pacing:
    """Turns answers into `PaceChange`s, and keeps answers until the frontier has taken the change that they
    led to.

    Several workers learn at once. A change is based on the pace that its worker knew; when another's came
    first, the frontier answers with that, and the same answers are applied to it. (If both came to the very same
    interval, it holds for both: then the pace recovers a little later.)

    A site that has too much says so to everything under way, on whichever worker. What was asked before the pace
    was slowed down because of that is no reason to slow down again.

    `now` is any clock in seconds that only goes forward, the same in all calls.
    """

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self._policies: dict[str, Policy] = {}
        """Of slots that have one of their own."""
        self._known: dict[str, Pace] = {}
        self._answers: dict[str, list[Answer]] = {}
        self._told: dict[str, int] = {}
        self._slowed_down: dict[str, float] = {}

    def note(self, slot: str, answer: Answer, now: float) -> None:
        """Take in an answer of the slot's site that has just come."""
        if answer.status in TOO_MUCH and now - answer.latency < self._slowed_down.get(slot, -math.inf):
            return
        self._answers.setdefault(slot, []).append(answer)

    def enter(self, slot: str) -> None:
        """Begin with the start delay at a site that this worker has not asked yet; others may know better."""
        if slot not in self._known:
            self._answers.setdefault(slot, [])

    def at_least(self, slot: str, seconds: float) -> None:
        """Never shorten the slot's interval below these seconds, as far as the policy's longest delay goes."""
        policy = self._policies.get(slot, self._policy)
        lower = min(max(policy.min_delay, seconds), policy.max_delay)
        self._policies[slot] = replace(policy, min_delay=lower)

    def changes(self) -> dict[str, PaceChange]:
        """What to say in the next exchange; empty when nothing was heard."""
        changes = {}
        for slot, answers in self._answers.items():
            known = self._before(slot)
            interval = next_delay(known.interval, answers, self._policies.get(slot, self._policy))
            if known.version == 0 or answers:
                changes[slot] = PaceChange(known.version, interval)
                self._told[slot] = len(answers)
        return changes

    def learned(self, said: Mapping[str, PaceChange], paces: Mapping[str, Pace], now: float) -> None:
        """Take in the frontier's word on what was `said`: drop the answers that are part of the pace by now."""
        for slot, pace in paces.items():
            change, left = said[slot], self._answers.get(slot, [])
            taken = pace.version == change.version + 1 and pace.interval == change.interval
            if taken:
                left = left[self._told[slot] :]
            if (taken or slot in self._known) and pace.interval >= SLOWER * self._before(slot).interval:
                self._slowed_down[slot] = now
                left = [answer for answer in left if answer.status not in TOO_MUCH]
            if left:
                self._answers[slot] = left
            else:
                self._answers.pop(slot, None)
            self._known[slot] = pace

    def _before(self, slot: str) -> Pace:
        return self._known.get(slot, Pace(0, self._policy.start_delay))

    def interval(self, slot: str) -> float | None:
        """Seconds between two requests to the slot as last heard; None before."""
        pace = self._known.get(slot)
        return None if pace is None else pace.interval


def build_pacing(settings: BaseSettings) -> Pacing | None:
    """As the settings of Scrapy's AutoThrottle say; None when it is off. Raises `ConfigurationError`."""
    if not settings.getbool("AUTOTHROTTLE_ENABLED"):
        return None
    if settings.getfloat("AUTOTHROTTLE_TARGET_CONCURRENCY") <= 0:
        raise ConfigurationError("AUTOTHROTTLE_TARGET_CONCURRENCY: must be more than 0")
    return Pacing(
        Policy(
            target_concurrency=settings.getfloat("AUTOTHROTTLE_TARGET_CONCURRENCY"),
            start_delay=settings.getfloat("AUTOTHROTTLE_START_DELAY"),
            min_delay=settings.getfloat("DOWNLOAD_DELAY"),
            max_delay=settings.getfloat("AUTOTHROTTLE_MAX_DELAY"),
        )
    )
