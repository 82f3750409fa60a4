"""Replies to the forms of query that come often, written but for their ID.

Path: step 2, before anything else; batch.py and table.py ask `by_form`.
Rule 1: a form is the octets after the ID: those of a name in lower case without EDNS options, at most MAX_PLANS for an
        entry.  They belong to their entry and go with it.
Rule 2: they take what memory the entries leave free, and give it back when entries need it.  While there is room each
        form is prepared at once, the one that is learned first; after that one in PACE of those that are asked for
        again, in place of an old one: what is hot comes back soon, and a working set that is larger than the room
        costs next to nothing more than without it.
Rule 3: a plan is small, for there may be 100,000: what is in its entry is not in it again where records rotate, and
        equal numbers are one.
"""

from __future__ import annotations

from collections import deque
from typing import Final

from hsdns.fastpath.entry import ONE_TURN, TURN_SHIFT, Entry, bytes_octets
from hsdns.fastpath.key import Form
from hsdns.wire.decode import HEADER_LEN
from hsdns.wire.edns import OPT_FIXED_LEN

MAX_PLANS: Final = 4
PACE: Final = 64
# What a plan costs beside its octets in CPython 3.11: itself, its places in the dictionary and in the queue.
PLAN_LEN: Final = 96 + 64 + 8
_MOST_NUMBERS: Final = 4096


class Plan:
    """The reply of one entry to one form of query.

    `body` is the reply after the ID; where records rotate (`step`), only what stands before them, and `opt` what stands
    at the end.  `kind` is what a hit over UDP and IPv4 counts as.  `next` is another one of the same entry, older.
    """

    __slots__ = ("body", "entry", "form", "kind", "length", "next", "opt", "step")

    def __init__(self, entry: Entry, query: bytes, end: int, form: Form, kind: int) -> None:
        self.entry = entry
        self.form = query[2:]
        self.next: Plan | None = None
        shape, records = entry.shape, entry.records
        start = shape.heads[form.variant] + query[HEADER_LEN:end]
        self.length = 2 + len(start) + len(records) + len(form.opt)
        self.step = shape.step
        self.kind = kind
        self.opt = form.opt
        self.body = start if shape.step else start + records + form.opt

    def turned(self) -> tuple[bytes, ...]:
        """The reply after the ID in pieces, its records in the order whose turn it is; the turn moves on."""
        entry = self.entry
        shape, records = entry.shape, entry.records
        at = (entry.state >> TURN_SHIFT) % shape.count * self.step
        entry.state += ONE_TURN
        block = shape.block
        return self.body, records[at:block], records[:at], records[block:], self.opt

    def octets(self) -> int:
        """How much memory it takes."""
        return PLAN_LEN + bytes_octets(self.form) + bytes_octets(self.body)


class Plans:
    """What is prepared."""

    def __init__(self) -> None:
        self.by_form: dict[bytes, Plan] = {}
        self.octets = 0
        self.countdown = 1  # how many that might be prepared come until the next one is
        self._oldest: deque[bytes] = deque()  # those that go first; the others are younger
        self._numbers: dict[int, int] = {}

    def prepare(
        self, key: bytes, entry: Entry, query: bytes, end: int, form: Form, kind: int, room: int
    ) -> None:
        """Prepare the reply to a form of query that has no prepared one, if it is one that will come again.

        `room` is how many octets all plans may take.
        """
        self.countdown = 1
        if (
            len(form.opt) > OPT_FIXED_LEN
            or not query.startswith(key[:-3], HEADER_LEN)
            or query[2:] in self.by_form
        ):
            return
        plan = Plan(entry, query, end, form, self._one(kind))
        octets = plan.octets()
        if plan.length > form.limit or octets > room:
            return
        plan.length = self._one(plan.length)
        siblings = _chain(entry)
        if len(siblings) == MAX_PLANS:
            self._remove(siblings[-1])
        if self.octets + octets > room:
            self.shrink(room - octets)
            self.countdown = PACE
        plan.next = entry.plan
        entry.plan = plan
        self.by_form[plan.form] = plan
        self.octets += octets

    def shrink(self, room: int) -> None:
        """Drop old ones until the others fit."""
        while self.octets > room and self.by_form:
            if not self._oldest:
                self._oldest.extend(self.by_form)
            plan = self.by_form.get(self._oldest.popleft())
            if plan is not None:
                self._remove(plan)

    def forget(self, entry: Entry) -> None:
        """Drop what is prepared of an entry."""
        for plan in _chain(entry):
            del self.by_form[plan.form]
            self.octets -= plan.octets()
        entry.plan = None

    def clear(self) -> None:
        """Drop all; their entries must be gone, too."""
        self.by_form.clear()
        self._oldest.clear()
        self.octets = 0
        self.countdown = 1

    def _remove(self, plan: Plan) -> None:
        del self.by_form[plan.form]
        self.octets -= plan.octets()
        left = None
        for each in reversed(_chain(plan.entry)):
            if each is not plan:
                each.next, left = left, each
        plan.entry.plan = left

    def _one(self, number: int) -> int:
        """The same object for equal numbers."""
        if len(self._numbers) >= _MOST_NUMBERS:
            self._numbers.clear()
        return self._numbers.setdefault(number, number)


def _chain(entry: Entry) -> list[Plan]:
    """The plans of an entry, the youngest first."""
    found = []
    plan = entry.plan
    while plan is not None:
        found.append(plan)
        plan = plan.next
    return found
