"""The Services whose last change no answer has shown yet, which the judge queries until one does; without clocks.

Path: judge.py adds each change when it is nearly due, asks what to query, and passes on the answers.
Rule 1: an answer shows a change if its query was sent when the change was due, and its addresses are others than those
        of the answer before.  The answer to an earlier query may show the change before that, if this was late.
Rule 2: answers count in the order of their queries: one that was overtaken has an older state, and the next one would
        seem to show a change.
"""

from __future__ import annotations

from typing import Final, NamedTuple

GIVE_UP: Final = 5.0  # seconds after which a Service is no longer queried for a change


class _Seen(NamedTuple):
    asked: float
    addresses: frozenset[str]


class Unseen:
    """Services by number; times are those of one clock, in seconds."""

    def __init__(self) -> None:
        self._due: dict[int, float] = {}
        self._seen: dict[int, _Seen] = {}  # the answer to the latest query

    def __bool__(self) -> bool:
        return bool(self._due)

    def add(self, service: int, due: float) -> None:
        """Add a change that is due at this time."""
        self._due[service] = due

    def next(self, now: float) -> int:
        """The Service to query now; each in turn.  Only if there are any."""
        service, due = next(iter(self._due.items()))
        del self._due[service]
        if now < due + GIVE_UP:
            self._due[service] = due  # moved behind the others
        return service

    def take(self, service: int, asked: float, addresses: frozenset[str]) -> None:
        """Take the answer to a query that was sent at `asked`."""
        before = self._seen.get(service)
        if before is not None and asked < before.asked:
            return
        self._seen[service] = _Seen(asked, addresses)
        due = self._due.get(service)
        is_shown = before is not None and addresses != before.addresses
        if due is not None and asked >= due and is_shown:
            del self._due[service]
