"""Replies to the forms of query that come often, written but for their ID.

Path: step 2, before anything else; batch.py and table.py ask `by_form`, and for what is not there find_alike().
Rule 1: a form is the octets after the ID: those of a name in lower case without EDNS options that are echoed, at most
        MAX_PLANS for an entry.  They belong to their entry and go with it.
Rule 2: they take what memory the entries leave free, and give it back when entries need it.  While there is room each
        form is prepared at once, the one that is learned first; after that one in PACE of those that are asked for
        again, in place of an old one: what is hot comes back soon, and a working set that is larger than the room
        costs next to nothing more than without it.
Rule 3: a plan is small, for there may be 100,000: what is in its entry is not in it again where records rotate, and
        equal numbers are one.
Rule 4: a query in mixed case, or with a client's cookie and no other option, is alike to the one in lower case without
        a cookie: that form is prepared for it, and its reply differs in the question and the cookie alone, which are
        put in as they came.  So lower case must change nothing but the name: a form that has letters behind it, as
        types and sizes may be (key.py, rule 6), is prepared for itself alone.
"""

from __future__ import annotations

from collections import deque
from itertools import islice
from typing import Final

from hsdns.fastpath.entry import FREQUENCY, ONE_TURN, TURN_SHIFT, Entry, bytes_octets
from hsdns.fastpath.key import COOKIE_LEN, COOKIE_START, Form
from hsdns.fastpath.tally import LENGTH_SHIFT
from hsdns.wire.decode import HEADER_LEN
from hsdns.wire.edns import OPT_FIXED_LEN

MAX_PLANS: Final = 4
PACE: Final = 64
MAX_ROUNDS: Final = 64
# What a plan costs beside its octets in CPython 3.11: itself, its places in the dictionary and in the queue.
PLAN_LEN: Final = 112 + 64 + 8
_MOST_NUMBERS: Final = 4096
_MOST_OLDEST: Final = 512  # few, for they may be of plans that are gone, whose memory nobody counts
_HEAD_LEN: Final = HEADER_LEN - 2  # before the question in a form, and in what is prepared
_CLASS_LEN: Final = 2
# How a query ends that has no option, from RDLENGTH on, and one that has a cookie but for the cookie's own octets.
_BARE: Final = b"\0\0"
_COOKIE: Final = COOKIE_LEN.to_bytes(2, "big") + COOKIE_START
_COOKIE_AT: Final = -2 - COOKIE_LEN
_COOKIE_END: Final = _COOKIE_AT + len(_COOKIE)
_BARE_LEN: Final = _CLASS_LEN + OPT_FIXED_LEN  # from the class on
_COOKIE_KIND: Final = COOKIE_LEN << LENGTH_SHIFT


class Plan:
    """The reply of one entry to one form of query.

    `body` is the reply after the ID; where records rotate (`step`), only what stands before them, and `opt` what stands
    at the end.  `head` is the header in it.  `kind` is what a hit over UDP and IPv4 counts as.  `end` is where the
    question ends in the form, 0 where no other one is alike.  `next` is another one of the same entry, older.
    """

    __slots__ = ("body", "end", "entry", "form", "head", "kind", "length", "next", "opt", "step")

    def __init__(self, entry: Entry, octets: bytes, end: int, form: Form, kind: int) -> None:
        self.entry = entry
        self.form = octets
        self.end = end
        self.next: Plan | None = None
        shape, records = entry.shape, entry.records
        self.head = shape.heads[form.variant]
        start = self.head + octets[_HEAD_LEN:end]
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

    def varied(self, form: bytes) -> tuple[tuple[bytes, ...], int, int]:
        """The reply to a form that is alike, after the ID and in pieces, its length, and what a hit counts as."""
        end = self.end
        cookie = form[_COOKIE_AT:] if len(form) != len(self.form) else b""
        if self.step:  # as in turned(), which would make a tuple to be taken apart
            entry = self.entry
            shape, records = entry.shape, entry.records
            at = (entry.state >> TURN_SHIFT) % shape.count * self.step
            entry.state += ONE_TURN
            block, opt = shape.block, self.opt
            parts: tuple[bytes, ...] = (
                self.head, form[_HEAD_LEN:end], records[at:block], records[:at], records[block:],
                opt[:-2] if cookie else opt, cookie,
            )  # fmt: skip
        else:
            rest = self.body[end:-2] if cookie else self.body[end:]
            parts = self.head, form[_HEAD_LEN:end], rest, cookie
        if cookie:
            return parts, self.length + COOKIE_LEN, self.kind + _COOKIE_KIND
        return parts, self.length, self.kind

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

    def find_alike(self, form: bytes) -> Plan | None:
        """What is prepared for a form but for case and cookie."""
        if form[_COOKIE_AT:_COOKIE_END] == _COOKIE:
            plan = self.by_form.get(form[:_COOKIE_AT].lower() + _BARE)
        else:
            plan = self.by_form.get(form.lower())
        return plan if plan is not None and plan.end else None

    def prepare(
        self, key: bytes, entry: Entry, query: bytes, end: int, form: Form, kind: int, room: int
    ) -> None:
        """Prepare the reply to a form of query that has no prepared one, if it is one that will come again.

        For a query that is alike to another one that is that one.
        `room` is how many octets all plans may take.
        """
        self.countdown = 1
        last = query[end - _CLASS_LEN :]
        if len(form.opt) > OPT_FIXED_LEN:
            if last[_COOKIE_AT:_COOKIE_END] != _COOKIE or len(last) != _BARE_LEN + COOKIE_LEN:
                return
            last = last[:_COOKIE_AT] + _BARE  # as without the cookie
            form = form._replace(opt=form.opt[:_COOKIE_AT] + _BARE)
            kind -= _COOKIE_KIND
        octets = query[2:HEADER_LEN] + key[:-1] + last
        around = key[-3:-1] + last
        has_others = len(last) <= _BARE_LEN and around.lower() == around.upper()
        if octets in self.by_form or not (has_others or octets == query[2:]):
            return
        plan = Plan(entry, octets, end - 2, form, self._one(kind))
        size = plan.octets()
        if plan.length > form.limit or size > room:
            return
        if not has_others or (form.opt and plan.length + COOKIE_LEN > form.limit):
            plan.end = 0
        plan.length = self._one(plan.length)
        siblings = _chain(entry)
        if len(siblings) == MAX_PLANS:
            self._remove(siblings[-1])
        if self.octets + size > room:
            self.shrink(room - size)
            self.countdown = PACE
        plan.next = entry.plan
        entry.plan = plan
        self.by_form[plan.form] = plan
        self.octets += size

    def shrink(self, room: int) -> None:
        """Drop the oldest that are not in use until the others fit in `room` octets.

        In use is what was asked for since it was passed over here: its entry's count of uses is at its maximum, and is
        lowered by one each time.
        """
        rounds = 0
        while self.octets > room and self.by_form:
            if not self._oldest:
                self._oldest.extend(islice(self.by_form, _MOST_OLDEST))
            plan = self.by_form.get(self._oldest.popleft())
            if plan is None:
                continue
            if plan.entry.state & FREQUENCY == FREQUENCY and rounds < MAX_ROUNDS:
                rounds += 1
                plan.entry.state -= 1
                del self.by_form[plan.form]
                self.by_form[plan.form] = plan
            else:
                rounds = 0
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
