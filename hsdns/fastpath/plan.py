"""Replies to the forms of query that come often, written but for their ID.

Path: step 2, before anything else; batch.py and table.py ask `by_form`.
Rule 1: a form is the octets after the ID: those of a name in lower case without EDNS options, at most MAX_PLANS for an
        entry, prepared when it is asked for again.  They belong to their entry and go with it.
Rule 2: they have a share of the table's memory.  While there is room each form is prepared at once; after that one in
        PACE, in place of the oldest: what is hot comes back soon, and a working set that is larger than the share
        costs next to nothing more than without it.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

from hsdns.fastpath.entry import ONE_TURN, TURN_SHIFT, Entry
from hsdns.fastpath.key import Form
from hsdns.wire.decode import HEADER_LEN
from hsdns.wire.edns import OPT_FIXED_LEN

MAX_PLANS: Final = 4
PACE: Final = 64
# What a plan costs beside its octets: itself, its places in two dictionaries, its bytes objects.
PLAN_LEN: Final = 500


class Plan:
    """The reply of one entry to one form of query.

    `body` is the reply after the ID; where records rotate, only what stands before them, and `rest` what stands
    after.  `kind` is what a hit over UDP and IPv4 counts as.
    """

    __slots__ = (
        "block",
        "body",
        "entry",
        "form",
        "key",
        "kind",
        "length",
        "octets",
        "rest",
        "step",
    )

    def __init__(
        self, key: bytes, entry: Entry, query: bytes, end: int, form: Form, kind: int
    ) -> None:
        self.key = key
        self.entry = entry
        self.form = query[2:]
        shape, records = entry.shape, entry.records
        start = shape.heads[form.variant] + query[HEADER_LEN:end]
        self.length = 2 + len(start) + len(records) + len(form.opt)
        self.step = shape.step
        self.kind = kind
        if shape.step:
            self.body = start
            self.block = records[: shape.block]
            self.rest = records[shape.block :] + form.opt
        else:
            self.body = start + records + form.opt
            self.block = self.rest = b""
        self.octets = PLAN_LEN + len(self.form) + len(self.body) + len(self.block) + len(self.rest)

    def turned(self) -> bytes:
        """The body with its records in the order whose turn it is; the turn moves on."""
        entry, block = self.entry, self.block
        at = (entry.state >> TURN_SHIFT) % entry.shape.count * self.step
        entry.state += ONE_TURN
        return b"".join((self.body, block[at:], block[:at], self.rest))


class Plans:
    """What is prepared, in at most `capacity` octets, oldest first."""

    def __init__(self, capacity: int) -> None:
        self.by_form: OrderedDict[bytes, Plan] = OrderedDict()
        self.octets = 0
        self.countdown = 1  # how many that might be prepared come until the next one is
        self._capacity = capacity
        self._by_key: dict[bytes, tuple[Plan, ...]] = {}

    def prepare(
        self, key: bytes, entry: Entry, query: bytes, end: int, form: Form, kind: int
    ) -> None:
        """Prepare the reply to a form of query that has no prepared one, if it is one that will come again."""
        self.countdown = 1
        if (
            len(form.opt) > OPT_FIXED_LEN
            or not query.startswith(key[:-3], HEADER_LEN)
            or query[2:] in self.by_form
        ):
            return
        plan = Plan(key, entry, query, end, form, kind)
        if plan.length > form.limit or plan.octets > self._capacity:
            return
        siblings = self._by_key.get(key, ())
        if len(siblings) == MAX_PLANS:
            self._remove(siblings[0])
        while self.octets + plan.octets > self._capacity:
            self._remove(next(iter(self.by_form.values())))
            self.countdown = PACE
        self._by_key[key] = (*self._by_key.get(key, ()), plan)
        self.by_form[plan.form] = plan
        self.octets += plan.octets

    def forget(self, key: bytes) -> None:
        """Drop what is prepared of an entry."""
        for plan in self._by_key.pop(key, ()):
            del self.by_form[plan.form]
            self.octets -= plan.octets

    def clear(self) -> None:
        """Drop all."""
        self.by_form.clear()
        self._by_key.clear()
        self.octets = 0
        self.countdown = 1

    def _remove(self, plan: Plan) -> None:
        del self.by_form[plan.form]
        self.octets -= plan.octets
        left = tuple(each for each in self._by_key[plan.key] if each is not plan)
        if left:
            self._by_key[plan.key] = left
        else:
            del self._by_key[plan.key]
