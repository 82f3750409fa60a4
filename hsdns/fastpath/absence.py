"""Names that do not exist, below parents that were asked for before: one look-up of all but the first label.

Path: step 2; batch.py asks here first where the query before was for such a name, else after table.py and region.py.
A random name cannot be prepared, what stands around its first label can: header, parent, type, OPT, and with them which
labels might exist there and what the reply consists of.
Rule 1: what is prepared of a parent says no more than region.py does, and holds until CHANGES moves (versions.py).
Rule 2: an entry comes before it, as before a region.
Rule 3: bounded: MAX_PARENTS (with all lengths of labels some 16 KiB each), the oldest goes; once there are as many, one
        new one in PACE is prepared, so that random parents cost next to nothing more than without it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

from hsdns.fastpath.entry import Entry
from hsdns.fastpath.key import Form
from hsdns.fastpath.plan import PACE
from hsdns.fastpath.region import Region
from hsdns.fastpath.versions import CHANGES
from hsdns.wire.decode import HEADER_LEN
from hsdns.wire.edns import OPT_FIXED_LEN

MAX_PARENTS: Final = 128
_LABEL: Final = HEADER_LEN + 1  # where the first label's octets start


class Parent:
    """What is the same for all queries for one type of names right below a parent, in one form.

    `others` are the labels that are left to the chain.  `rest` is what follows the first label in their keys.  `made`
    has, by the length of that label, what stands behind the question in the reply, its length without the first label's
    own octets, and what a hit counts as.
    """

    __slots__ = ("changes", "form", "head", "made", "others", "region", "rest")

    def __init__(self, region: Region, others: Collection[bytes], rest: bytes, form: Form) -> None:
        assert region.template is not None, "region.py has told that a name is absent"
        self.region = region
        self.others = others
        self.rest = rest
        self.form = form
        self.head = region.template.heads[form.variant]
        self.made: dict[int, tuple[bytes, int, int]] = {}
        self.changes = CHANGES[0]

    def make(self, kind: int, query: bytes, end: int) -> None:
        """Note what a query of this length is answered, which counts as `kind` says."""
        tail = self.region.record(end) + self.form.opt
        if end + len(tail) <= self.form.limit:
            self.made[query[HEADER_LEN]] = (tail, end + len(tail), kind)


class Absences:
    """The parents of one table; `is_likely`: the last query that was not prepared was for a name below one."""

    def __init__(self, entries: Mapping[bytes, Entry]) -> None:
        self.is_likely = False
        self._entries = entries
        self._parents: dict[bytes, Parent] = {}
        self._countdown = PACE

    def __len__(self) -> int:
        return len(self._parents)

    def answer(self, query: bytes) -> tuple[bytes, bytes, bytes, int, int] | None:
        """Header after the ID, question, what follows; then the reply's length and what it counts as over UDP and IPv4.

        None where nothing is prepared, or the name might exist.
        """
        try:
            length = query[HEADER_LEN]
        except IndexError:
            return None
        stop = _LABEL + length
        parent = self._parents.get(query[2:HEADER_LEN] + query[stop:])
        if parent is None or parent.changes != CHANGES[0]:
            return None
        made = parent.made.get(length)
        label = query[_LABEL:stop].lower()
        if (
            made is None
            or label in parent.others
            or query[HEADER_LEN:_LABEL] + label + parent.rest in self._entries
        ):
            return None
        tail, size, kind = made
        return parent.head, query[HEADER_LEN : size - len(tail)], tail, size, kind

    def prepare(
        self, region: Region, key: bytes, query: bytes, end: int, form: Form, kind: int
    ) -> None:
        """Prepare the parent of a name that does not exist, or what a label of another length below it is answered."""
        length = query[HEADER_LEN]
        if (
            len(query) - end > OPT_FIXED_LEN
            or query[_LABEL + length : end - 4] != key[1 + length : -3]
        ):
            return  # options, or a parent in mixed case: it will hardly come again
        place = query[2:HEADER_LEN] + query[_LABEL + length :]
        parent = self._parents.get(place)
        if parent is None or parent.changes != CHANGES[0]:
            if parent is None and len(self._parents) >= MAX_PARENTS:
                self._countdown -= 1
                if self._countdown:
                    return
                self._countdown = PACE
                del self._parents[next(iter(self._parents))]
            rest = key[1 + length :]
            parent = Parent(region, region.others_below(rest[:-3]), rest, form)
            self._parents[place] = parent
        parent.make(kind, query, end)

    def clear(self) -> None:
        """Forget all."""
        self._parents.clear()
