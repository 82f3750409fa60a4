"""Looks up a query in the answer table without answering it.

Path: explanation/records.py -> table.py -> here.  Twin of Reading.peek() in native/src/table.rs.
Rule 1: the result is that of the next lookup of the query: a hit, or None for a miss.
Rule 2: nothing is counted or changed: neither the use count of an entry, nor its place in a queue, nor prepared
        replies.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from hsdns.fastpath.entry import Entry
from hsdns.fastpath.versions import Versions


class Peeked(NamedTuple):
    """A hit; `is_denial` of a name that does not exist, as others in its negative zone.

    For a reply of `cache` it has the times when it was stored and when it expires; in monotonic seconds.
    """

    is_denial: bool
    stored: float | None
    expires: float | None


DENIAL: Final = Peeked(True, None, None)
UNTIMED: Final = Peeked(False, None, None)


def peek_at(entry: Entry, versions: Versions, now: float) -> Peeked | None:
    """The hit of a stored reply at `now`, in monotonic seconds; None if it has expired."""
    if not entry.is_valid(versions) or (entry.needs_lease and now >= versions.lease_end):
        return None
    timing = entry.timing
    if timing is None:
        return UNTIMED
    return None if timing.left(now) is None else Peeked(False, timing.stored, timing.expires)
