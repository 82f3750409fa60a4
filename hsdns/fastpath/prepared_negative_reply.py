"""Prepared negative replies: NXDOMAIN for names directly below a parent name that clients have queried before.

Path: step 2; batch.py tries it first if the last query was for such a name, otherwise after table.py and
negative_zone.py.
The reply to a random name cannot be prepared, but all of it except the first label can: the header, the parent, the
type and the OPT, with the labels that the chain must answer.  So one lookup is enough.
Rule 1: a prepared negative reply equals that of negative_zone.py, and is valid until CHANGES is incremented
        (versions.py).
Rule 2: an entry takes precedence, as over a negative zone.
Rule 3: memory is bounded: MAX_PARENTS (some 16 KiB each with all lengths of labels); the oldest is dropped.  At that
        number, one of PACE new parents is prepared, so that random parents cost hardly more than without prepared
        replies.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from typing import Final

from hsdns.fastpath.entry import Entry
from hsdns.fastpath.key import Form
from hsdns.fastpath.negative_zone import NegativeZone
from hsdns.fastpath.prepared_reply import PACE
from hsdns.fastpath.versions import CHANGES
from hsdns.wire.decode import HEADER_LEN
from hsdns.wire.edns import OPT_FIXED_LEN

MAX_PARENTS: Final = 128
_LABEL: Final = HEADER_LEN + 1  # the start of the first label's octets


class PreparedNegativeReply:
    """The common data of all queries in one form, for one type of names directly below one parent.

    `left_to_chain` are the labels that the chain must answer.  `rest` is what follows the first label in the queries'
    keys.  `by_length` has, for each length of that label, what follows the question in the reply, the reply's length,
    and the kind of the hit.
    """

    __slots__ = ("by_length", "changes", "form", "head", "left_to_chain", "negative_zone", "rest")

    def __init__(
        self,
        negative_zone: NegativeZone,
        left_to_chain: Container[bytes],
        rest: bytes,
        form: Form,
        changes: int,
    ) -> None:
        assert negative_zone.template is not None, "negative_zone.py found a name absent"
        self.negative_zone = negative_zone
        self.left_to_chain = left_to_chain
        self.rest = rest
        self.form = form
        self.head = negative_zone.template.heads[form.variant]
        self.by_length: dict[int, tuple[bytes, int, int]] = {}
        self.changes = changes

    def add_length(self, kind: int, query: bytes, end: int) -> None:
        """Prepare the reply to queries of this length, counted as `kind`, if it fits without truncation."""
        tail = self.negative_zone.record(end) + self.form.opt
        if end + len(tail) <= self.form.limit:
            self.by_length[query[HEADER_LEN]] = (tail, end + len(tail), kind)


class PreparedNegativeReplies:
    """The replies of one table, by parent; `is_likely`: the last query without one was for a name below a parent."""

    def __init__(self, entries: Mapping[bytes, Entry]) -> None:
        self.is_likely = False
        self._entries = entries
        self._by_parent: dict[bytes, PreparedNegativeReply] = {}
        self._countdown = PACE

    def __len__(self) -> int:
        return len(self._by_parent)

    def answer(self, query: bytes) -> tuple[bytes, bytes, bytes, int, int] | None:
        """The reply in pieces: header after the ID, question, the rest; then its length and its kind.

        The kind is that over UDP and IPv4.  None if nothing is prepared, or if the chain must answer.
        """
        try:
            length = query[HEADER_LEN]
        except IndexError:
            return None
        stop = _LABEL + length
        prepared = self._by_parent.get(query[2:HEADER_LEN] + query[stop:])
        if prepared is None or prepared.changes != CHANGES[0]:
            return None
        found = prepared.by_length.get(length)
        label = query[_LABEL:stop].lower()
        if (
            found is None
            or label in prepared.left_to_chain
            or query[HEADER_LEN:_LABEL] + label + prepared.rest in self._entries
        ):
            return None
        tail, size, kind = found
        return prepared.head, query[HEADER_LEN : size - len(tail)], tail, size, kind

    def prepare(
        self,
        negative_zone: NegativeZone,
        key: bytes,
        query: bytes,
        end: int,
        form: Form,
        kind: int,
        changes: int,
    ) -> None:
        """Prepare the reply to a name that does not exist, for all names of its length below its parent.

        `changes` is the value of CHANGES before the lookup that did not find the name.
        """
        length = query[HEADER_LEN]
        if (
            len(query) - end > OPT_FIXED_LEN
            or query[_LABEL + length : end - 4] != key[1 + length : -3]
        ):
            return  # with options, or with a parent in mixed case, it will hardly be queried again
        parent = query[2:HEADER_LEN] + query[_LABEL + length :]
        prepared = self._by_parent.get(parent)
        if prepared is None or prepared.changes != CHANGES[0]:
            if prepared is None and len(self._by_parent) >= MAX_PARENTS:
                self._countdown -= 1
                if self._countdown:
                    return
                self._countdown = PACE
                del self._by_parent[next(iter(self._by_parent))]
            changes, rest = CHANGES[0], key[1 + length :]
            left_to_chain = negative_zone.labels_left_to_chain(rest[:-3])
            prepared = PreparedNegativeReply(negative_zone, left_to_chain, rest, form, changes)
            self._by_parent[parent] = prepared
        prepared.add_length(kind, query, end)

    def clear(self) -> None:
        """Drop all prepared replies."""
        self._by_parent.clear()
