"""The outcome of a query, passed from the process that sends to the one that counts.

Path: send/loop.py packs -> a pipe -> send/process.py -> here -> results.py, verify/verifier.py.
      Twin of native/src/load_sender/messages.rs.
Rule 1: times are nanoseconds of the monotonic clock, which both processes share.
Rule 2: a reply goes over the pipe once, with a number that outcomes refer to.  So a reply that arrives a thousand times
        is parsed once.
Rule 3: the compiled sender sends counts; then it sends outcomes only if answers are judged.
Rule 4: the sender says which queries were late (schedule.py), with a flag above those of the reply.

The different replies of a run that a sender has told the counting process, so that each is told once:
Rule: replies that have not come for a while are dropped, so that the others stay: if all were dropped at once, the
      counting process would have to decode and judge every reply again in the same moment.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from struct import Struct, pack, unpack
from typing import Final, Generic, NamedTuple, TypeVar

from hsdns.load.questions import Question
from hsdns.wire.name import Name

_OUTCOME: Final = Struct("=IIIqqq")
_COUNT: Final = Struct("=BIII")
_FRAME: Final = Struct("=cI")
_QUESTION: Final = Struct("=IHB")
OUTCOMES: Final = b"o"
ANSWERS: Final = b"a"  # outcomes of answered queries, which are also in COUNTS
COUNTS: Final = b"c"
REPLY: Final = b"r"
FORGET: Final = b"f"  # the numbers of replies that are no longer referred to
QUESTION: Final = b"q"  # a question that was unknown when the run began; precedes its outcomes
# What was counted, once, at the end (counters.py).
CONNECTIONS: Final = b"n"
LOOKUPS: Final = b"l"
READY: Final = b"b"
END: Final = b"e"

# What a count belongs to: a second of the schedule, or with OF_KIND added a kind of question.
# LATE and LATE_LOST are part of what was sent and lost.  SERVICE is the time from the sending to the reply.
# Of a second of the run: UNMATCHED replies, whose value is an index of WHY_UNMATCHED; UNSTAMPED ones, whose time is
# that of reading; SENT_WITHIN, how long the call took that sent a query; DROPPED, for which a socket had no room.
LATENESS, LATENCY, RCODE, LOST_COUNT, NOT_SENT_COUNT, TRUNCATED = range(6)
SERVICE, LATE_COUNT, LATE_LOST, UNMATCHED, UNSTAMPED, SENT_WITHIN, DROPPED = range(6, 13)
OF_KIND: Final = 16
# No query with this ID was sent recently; it was answered or given up before; the question is another one; QR is 0.
NO_QUERY, ENDED, OTHER_QUESTION, NO_REPLY = range(4)
WHY_UNMATCHED: Final = ("unknown ID", "late or repeated", "another question", "QR is 0")

# In the flags of an Outcome: the query was sent late; it may have left later, as the system call was held up.
LATE: Final = 1 << 16
UNSURE: Final = 1 << 17
UNSURE_AFTER: Final = 100_000  # nanoseconds of a system call

LOST: Final = 0  # in place of the time at which the reply arrived
NOT_SENT: Final = -1


_REPLY: Final = Struct(">II")  # as compiled code writes it
# The fields of an Outcome, without its class.
PlainOutcome = tuple[int, int, int, int, int, int]


class Outcome(NamedTuple):
    """One query: the number of its question, the flags of its reply, and when it was due, sent and answered.

    Above the flags of the reply are LATE and UNSURE.  Without a reply, `received` is LOST or NOT_SENT; `reply` is its
    number, 0 if replies are not wanted.
    """

    question: int
    flags: int
    reply: int
    planned: int
    sent: int
    received: int


# Returns the octets of an outcome; the arguments are its fields.
pack_outcome: Final = _OUTCOME.pack


def unpack_outcomes(octets: bytes) -> Iterator[tuple[int, int, int, int, int, int]]:
    """The outcomes in octets, as plain tuples in the order of Outcome."""
    return _OUTCOME.iter_unpack(octets)


def pack_numbers(numbers: Sequence[int]) -> bytes:
    """Numbers of replies as octets."""
    return pack(f">{len(numbers)}I", *numbers)


def unpack_numbers(octets: bytes) -> tuple[int, ...]:
    """The numbers of replies in octets."""
    return unpack(f">{len(octets) // 4}I", octets)


def unpack_counts(octets: bytes) -> Iterator[tuple[int, int, int, int]]:
    """Counts: what they belong to, the number of the second or kind, a histogram slot or an RCODE, and the count."""
    return _COUNT.iter_unpack(octets)


def pack_counts(found: Iterable[tuple[int, int, int, int]]) -> bytes:
    """Octets of which unpack_counts() makes these counts."""
    return b"".join(_COUNT.pack(*each) for each in found)


def pack_question(number: int, question: Question) -> bytes:
    """A question and its number as octets; the number continues those of earlier questions."""
    group = question.group.encode()
    return _QUESTION.pack(number, question.qtype, len(group)) + group + question.name.wire


def unpack_question(octets: bytes) -> tuple[int, Question]:
    """The number and the question."""
    number, qtype, length = _QUESTION.unpack_from(octets)
    at = _QUESTION.size + length
    group = octets[_QUESTION.size : at].decode()
    return number, Question(Name(octets[at:]), qtype, group)


def frame(kind: bytes, octets: bytes | bytearray = b"") -> bytes:
    """A message on the pipe."""
    return _FRAME.pack(kind, len(octets)) + octets


def reply_frame(number: int, of: int, content: bytes) -> bytes:
    """The message about a new reply, without its ID: its number, and that of its question or event."""
    return frame(REPLY, _REPLY.pack(number, of) + content)


def read_reply(octets: bytes) -> tuple[int, int, bytes]:
    """The contents of such a message."""
    return *_REPLY.unpack_from(octets), octets[_REPLY.size :]


def forget_frame(numbers: Sequence[int]) -> bytes:
    """The message about replies that are no longer referred to, by number."""
    return frame(FORGET, pack_numbers(numbers))


class Frames:
    """Splits the octets of a pipe into messages."""

    def __init__(self) -> None:
        self._octets = bytearray()

    def feed(self, octets: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Add octets; yield kind and content of each complete message."""
        waiting = self._octets
        waiting += octets
        at = 0
        while len(waiting) - at >= _FRAME.size:
            kind, length = _FRAME.unpack_from(waiting, at)
            if len(waiting) - at - _FRAME.size < length:
                break
            at += _FRAME.size
            yield kind, bytes(waiting[at : at + length])
            at += length
        del waiting[:at]


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
