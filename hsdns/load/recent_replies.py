"""The different replies of a run that a sender has told the counting process, so that each is told once.

Path: sender.py, telling.py and pod_sender.py look replies up here; recent_replies.rs is the same for compiled code.
Rule: replies that have not come for a while are dropped, so that the others stay: if all were dropped at once, the
      counting process would have to decode and judge every reply again in the same moment.
"""

from __future__ import annotations

from typing import Final, Generic, TypeVar

V = TypeVar("V")
MOST_REPLIES: Final = 100_000


class RecentReplies(Generic[V]):
    """Values by the content of replies, at most `most`: those that have come in this period or the one before."""

    def __init__(self, most: int = MOST_REPLIES) -> None:
        self._most = most
        self._new: dict[bytes, V] = {}
        self._old: dict[bytes, V] = {}

    def get(self, content: bytes) -> V | None:
        """The value of a reply."""
        found = self._new.get(content)
        if found is None and self._old:
            found = self._old.pop(content, None)
            if found is not None:
                self._new[content] = found
        return found

    def add(self, content: bytes, value: V) -> list[V]:
        """Store the value of a reply that get() does not know; return the values of those dropped for it."""
        new, old = self._new, self._old
        if 2 * len(new) < self._most and len(new) + len(old) < self._most:
            new[content] = value
            return []
        self._new, self._old = {content: value}, new
        return list(old.values())

    def replace(self, content: bytes, value: V) -> None:
        """Replace the value that get() has just returned."""
        self._new[content] = value
