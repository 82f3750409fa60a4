"""What the answer table has for a query, found without answering it.

Path: explanation/table.py -> table.py -> here.  Twin of Reading.peek() in native/src/table.rs.
Rule 1: it is what the next look-up of the query would be: a hit, or None for a miss.
Rule 2: nothing is counted, and nothing changes: not how often an entry was used, nor its turn, nor what is prepared.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from hsdns.fastpath.entry import Entry
from hsdns.fastpath.versions import Versions


class Peeked(NamedTuple):
    """A hit: of an entry, or of a negative zone.

    Of a reply of `cache` it has when that was stored, and from when on it is no hit; in monotonic seconds.
    """

    is_entry: bool
    stored: float | None
    expires: float | None


NEGATIVE: Final = Peeked(False, None, None)


def peek_at(entry: Entry, versions: Versions, now: float) -> Peeked | None:
    """What a stored reply is at `now`, in monotonic seconds; None if it is no hit."""
    if not entry.is_valid(versions) or (entry.needs_lease and now >= versions.lease_end):
        return None
    timing = entry.timing
    if timing is None:
        return Peeked(True, None, None)
    return None if timing.left(now) is None else Peeked(True, timing.stored, timing.expires)
