"""Prepared replies: complete replies to frequent forms of queries, except for the ID.

Path: step 2, before anything else; batch.py and table.py look in `by_form`, and find_normalized() finds the rest.
Rule 1: a form is the part of a query after the ID, in lower case and without EDNS options that are echoed.  An entry
        has prepared replies for at most MAX_FORMS_OF_ENTRY forms, which are dropped together with it.
Rule 2: prepared replies use memory that entries do not need, and release it when entries need it.  While there is room,
        the form that is stored is prepared at once.  After that, one of PACE forms that are queried again is prepared,
        and replaces the oldest one that is not in use (S3-FIFO's second chance): frequently queried names return soon,
        and a working set larger than the room costs hardly more than without prepared replies.
Rule 3: a prepared reply is small, because there may be 100,000: records that rotate are only in the entry, and equal
        numbers are one object.
Rule 4: the normalized form of a query is in lower case, without the client's cookie if that is its only option.  A
        query in another form is answered from the reply to its normalized form, with its own question and cookie
        inserted.  So lower case must change nothing but the name: a form with letters after the name, as types and
        sizes may be (key.py, rule 6), is used only for queries of exactly that form.
"""

from __future__ import annotations

from collections import deque
from itertools import islice
from typing import Final

from hsdns.fastpath.entry import FREQUENCY, ONE_ROTATION, ROTATION_SHIFT, Entry, bytes_octets
from hsdns.fastpath.hit_counts import LENGTH_SHIFT
from hsdns.fastpath.key import COOKIE_LEN, COOKIE_START, Form
from hsdns.wire.decode import HEADER_LEN
from hsdns.wire.edns import OPT_FIXED_LEN

MAX_FORMS_OF_ENTRY: Final = 4
PACE: Final = 64
ROOM_TO_PREPARE: Final = 1024  # free octets: a reply is prepared as soon as it is stored
SHARE: Final = 16  # the part of a table's capacity that is reserved for prepared replies
MAX_ROUNDS: Final = 64  # skipped for one that is dropped
# Memory in CPython 3.11 beside the octets: the object, its places in the dictionary and in the queue.
PREPARED_REPLY_LEN: Final = 112 + 64 + 8
_MAX_NUMBERS: Final = 4096
# Few, because they may be forms of dropped replies, whose memory is not counted.
_MAX_OLDEST: Final = 512
_HEAD_LEN: Final = HEADER_LEN - 2  # the header without ID
_CLASS_LEN: Final = 2
# The end of a query without options, from RDLENGTH on, and of one with a cookie up to the cookie's value.
_BARE: Final = b"\0\0"
_COOKIE: Final = COOKIE_LEN.to_bytes(2, "big") + COOKIE_START
_COOKIE_AT: Final = -2 - COOKIE_LEN
_COOKIE_END: Final = _COOKIE_AT + len(_COOKIE)
_BARE_LEN: Final = _CLASS_LEN + OPT_FIXED_LEN  # from the class on
_COOKIE_KIND: Final = COOKIE_LEN << LENGTH_SHIFT


class PreparedReply:
    """The reply of one entry to one form of query.

    `body` is the reply after the ID; if records rotate (`step` is not 0), only the part before them, and `opt` is the
    OPT record at the end.  `head` is the header within it.  `kind` is that of a hit over UDP and IPv4 (hit_counts.py).
    `end` is the end of the question in the form, 0 if it answers no other form.  `older` is another form of the same
    entry, prepared before this one.
    """

    __slots__ = ("body", "end", "entry", "form", "head", "kind", "length", "older", "opt", "step")

    def __init__(self, entry: Entry, octets: bytes, end: int, form: Form, kind: int) -> None:
        self.entry = entry
        self.form = octets
        self.end = end
        self.older: bytes | None = None
        shared, records = entry.shared, entry.records
        self.head = shared.heads[form.variant]
        start = self.head + octets[_HEAD_LEN:end]
        self.length = 2 + len(start) + len(records) + len(form.opt)
        self.step = shared.step
        self.kind = kind
        self.opt = form.opt
        self.body = start + (records[: shared.first] if shared.step else records + form.opt)

    def update(self) -> None:
        """Copy the records of the entry again after their TTL has changed."""
        shared, records = self.entry.shared, self.entry.records
        if self.step:
            self.body = self.body[: len(self.body) - shared.first] + records[: shared.first]
        else:
            rest = records + self.opt
            self.body = self.body[: len(self.body) - len(rest)] + rest

    def rotated(self) -> tuple[bytes, ...]:
        """The reply after the ID in pieces, with the next rotation of its addresses."""
        entry = self.entry
        shared, records = entry.shared, entry.records
        first, stop = shared.first, shared.stop
        at = first + (entry.state >> ROTATION_SHIFT) % shared.count * self.step
        entry.state += ONE_ROTATION
        return self.body, records[at:stop], records[first:at], records[stop:], self.opt

    def adapted(self, form: bytes) -> tuple[tuple[bytes, ...], int, int]:
        """The reply to a form with this normalized form: its pieces after the ID, its length, and its kind."""
        end = self.end
        cookie = form[_COOKIE_AT:] if len(form) != len(self.form) else b""
        if self.step:  # as in rotated(), without creating a tuple
            entry = self.entry
            shared, records = entry.shared, entry.records
            first, stop, opt = shared.first, shared.stop, self.opt
            at = first + (entry.state >> ROTATION_SHIFT) % shared.count * self.step
            entry.state += ONE_ROTATION
            parts: tuple[bytes, ...] = (
                self.head, form[_HEAD_LEN:end], records[:first], records[at:stop], records[first:at], records[stop:],
                opt[:-2] if cookie else opt, cookie,
            )  # fmt: skip
        else:
            rest = self.body[end:-2] if cookie else self.body[end:]
            parts = self.head, form[_HEAD_LEN:end], rest, cookie
        if cookie:
            return parts, self.length + COOKIE_LEN, self.kind + _COOKIE_KIND
        return parts, self.length, self.kind

    def octets(self) -> int:
        """Its memory in octets."""
        return PREPARED_REPLY_LEN + bytes_octets(self.form) + bytes_octets(self.body)


class PreparedReplies:
    """The prepared replies of one table, oldest first; `octets` is their memory."""

    def __init__(self) -> None:
        self.by_form: dict[bytes, PreparedReply] = {}
        self.octets = 0
        self.countdown = 1  # eligible queries until prepare() is called
        self._oldest: deque[bytes] = deque()  # candidates of shrink(); all others are younger
        self._numbers: dict[int, int] = {}

    def find_normalized(self, form: bytes) -> PreparedReply | None:
        """The prepared reply to the normalized form of a query, if it can be adapted."""
        if form[_COOKIE_AT:_COOKIE_END] == _COOKIE:
            prepared = self.by_form.get(form[:_COOKIE_AT].lower() + _BARE)
        else:
            prepared = self.by_form.get(form.lower())
        return prepared if prepared is not None and prepared.end else None

    def prepare(
        self, key: bytes, entry: Entry, query: bytes, end: int, form: Form, kind: int, room: int
    ) -> None:
        """Prepare the reply to the normalized form of a query, if there is none and it is likely to be queried again.

        `room` is the limit of octets for all prepared replies.
        """
        self.countdown = 1
        last = query[end - _CLASS_LEN :]
        if len(form.opt) > OPT_FIXED_LEN:
            if last[_COOKIE_AT:_COOKIE_END] != _COOKIE or len(last) != _BARE_LEN + COOKIE_LEN:
                return
            last = last[:_COOKIE_AT] + _BARE
            form = form._replace(opt=form.opt[:_COOKIE_AT] + _BARE)
            kind -= _COOKIE_KIND
        octets = query[2:HEADER_LEN] + key[:-1] + last
        around = key[-3:-1] + last
        answers_others = len(last) <= _BARE_LEN and around.lower() == around.upper()
        if octets in self.by_form or not (answers_others or octets == query[2:]):
            return
        prepared = PreparedReply(entry, octets, end - 2, form, self._share(kind))
        size = prepared.octets()
        if prepared.length > form.limit or size > room:
            return
        if not answers_others or (form.opt and prepared.length + COOKIE_LEN > form.limit):
            prepared.end = 0
        prepared.length = self._share(prepared.length)
        siblings = self._of_entry(entry)
        if len(siblings) == MAX_FORMS_OF_ENTRY:
            self._remove(siblings[-1])
        if self.octets + size > room:
            self.shrink(room - size)
            self.countdown = PACE
        prepared.older = entry.form
        entry.form = octets
        self.by_form[octets] = prepared
        self.octets += size

    def shrink(self, room: int) -> None:
        """Drop the oldest that are not in use until the others fit in `room` octets.

        A reply is in use if it was queried since it was last skipped here: the frequency of its entry is at its
        maximum, and each skip reduces it by one.
        """
        rounds = 0
        while self.octets > room and self.by_form:
            if not self._oldest:
                self._oldest.extend(islice(self.by_form, _MAX_OLDEST))
            prepared = self.by_form.get(self._oldest.popleft())
            if prepared is None:
                continue
            if prepared.entry.state & FREQUENCY == FREQUENCY and rounds < MAX_ROUNDS:
                rounds += 1
                prepared.entry.state -= 1
                del self.by_form[prepared.form]
                self.by_form[prepared.form] = prepared
            else:
                rounds = 0
                self._remove(prepared)

    def update(self, entry: Entry) -> None:
        """Copy the records of an entry into its prepared replies again after their TTL has changed."""
        for prepared in self._of_entry(entry):
            prepared.update()

    def forget(self, entry: Entry) -> None:
        """Drop the prepared replies of an entry."""
        form = entry.form
        while form is not None:
            prepared = self.by_form.pop(form)
            self.octets -= prepared.octets()
            form = prepared.older
        entry.form = None

    def clear(self) -> None:
        """Drop all prepared replies, together with their entries."""
        self.by_form.clear()
        self._oldest.clear()
        self.octets = 0
        self.countdown = 1

    def _of_entry(self, entry: Entry) -> list[PreparedReply]:
        """The prepared replies of an entry, the newest first."""
        found = []
        form = entry.form
        while form is not None:
            prepared = self.by_form[form]
            found.append(prepared)
            form = prepared.older
        return found

    def _remove(self, gone: PreparedReply) -> None:
        siblings = self._of_entry(gone.entry)
        newest = None
        for prepared in reversed(siblings):
            if prepared is not gone:
                prepared.older, newest = newest, prepared.form
        gone.entry.form = newest
        del self.by_form[gone.form]
        self.octets -= gone.octets()

    def _share(self, number: int) -> int:
        """Return one object for equal numbers."""
        if len(self._numbers) >= _MAX_NUMBERS:
            self._numbers.clear()
        return self._numbers.setdefault(number, number)
