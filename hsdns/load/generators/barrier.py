"""The meeting of the generators of a run before it begins: who is ready, who has failed, and when all begin.

Path: meeting.py, which has the sockets and the clocks -> here.
Rule 1: a generator asks again and again; each answer has the coordinator's time, and so is a measurement of clocks.
Rule 2: the begin is set once, when all generators are ready with one plan, and does not move.
Rule 3: the first failure ends the meeting for all.
"""

from __future__ import annotations

from hashlib import sha256
from typing import Any, Final

import msgspec

from hsdns.load.report import ClockReport
from hsdns.load.schedule import SECOND

LEAD: Final = 2 * SECOND  # from when all are ready to the begin
PATIENCE: Final = 600 * SECOND  # until all are ready
_NAMED: Final = 5  # generators in a sentence


class Asked(msgspec.Struct, frozen=True):
    """What a generator says of itself; `plan` is None until it is ready, `failed` why it will never be."""

    part: int
    parts: int
    plan: dict[str, Any] | None = None
    failed: str = ""


class Told(msgspec.Struct, frozen=True):
    """The coordinator's answer; times in nanoseconds since 1970, by its clock.

    `begin` is 0 until it is set, `failed` why there is none, `awaited` the generators that are not ready, in words.
    """

    now: int
    begin: int = 0
    failed: str = ""
    awaited: str = ""


class Barrier:
    """The coordinator's part in a meeting of `parts` generators, which begins at `now`."""

    def __init__(self, parts: int, now: int) -> None:
        self._parts, self._opened = parts, now
        self._plans: dict[int, dict[str, Any] | None] = {}
        self._connections: dict[int, object] = {}
        self._begin, self._failed = 0, ""

    def answer(self, asked: Asked, connection: object, now: int) -> Told:
        """Answer a generator, which has a connection of its own."""
        if not self._begin and not self._failed:
            self._failed = self._problem(asked, connection, now)
            self._plans[asked.part] = asked.plan
            if not self._failed and not self._awaited():
                self._begin = now + LEAD
        return Told(now, self._begin, self._failed, self._awaited())

    def left(self, connection: object) -> None:
        """End the meeting, unless it is over, because a connection ended; not if that of no generator did."""
        for part, known in self._connections.items():
            if known is connection and not self._begin and not self._failed:
                self._failed = (
                    f"{self._name(part)} has ended before the load began; its log says why"
                )

    def _problem(self, asked: Asked, connection: object, now: int) -> str:
        name = self._name(asked.part)
        if asked.parts != self._parts or not 0 <= asked.part < self._parts:
            return f"found part {asked.part}/{asked.parts} among {self._parts} generators; use the same count for all"
        if self._connections.setdefault(asked.part, connection) is not connection:
            return f"there are two generators with {name}; give each its own"
        if asked.failed:
            return f"{name} has failed: {asked.failed}"
        plan = asked.plan or {}
        for part, other in self._plans.items():
            if plan and other and plan != other:
                keys = [key for key in {**other, **plan} if other.get(key) != plan.get(key)]
                differ = ", ".join(f"{key} {plan.get(key)}, not {other.get(key)}" for key in keys)
                told = f"{name} has another plan than {self._name(part)}: {differ}"
                return f"{told}; give all generators the same flags and files"
        if now - self._opened > PATIENCE:
            return f"not all generators were ready within {PATIENCE // SECOND} s; missing: {self._awaited()}"
        return ""

    def _awaited(self) -> str:
        missing = [part for part in range(self._parts) if self._plans.get(part) is None]
        words = [
            f"{self._name(part)}{'' if part in self._plans else ' (not there yet)'}"
            for part in missing[:_NAMED]
        ]
        return ", ".join(words) + f" and {len(missing) - _NAMED} more" * (len(missing) > _NAMED)

    def _name(self, part: int) -> str:
        return f"part {part}/{self._parts}"


def digest(plan: dict[str, Any]) -> str:
    """A number of 128 bits for a plan, as hexadecimal digits."""
    return sha256(msgspec.json.encode(plan, order="sorted")).hexdigest()[:32]


class Clock:
    """How far this machine's clock is `ahead` of the coordinator's, in nanoseconds.

    Its time was told between sending and receiving, so of all exchanges the shortest one says most, as in NTP.
    Source: RFC 5905, sections 8 and 10.
    """

    def __init__(self) -> None:
        self._trip, self.ahead = 1 << 62, 0

    def add(self, sent: int, told: Told, received: int) -> None:
        """Add an exchange, by this machine's clock."""
        if received - sent < self._trip:
            self._trip = received - sent
            self.ahead = sent + self._trip // 2 - told.now

    def report(self, part: str) -> ClockReport:
        """What the report says of it."""
        return ClockReport(part, round(self.ahead / 1000), -(-self._trip // 2000))
