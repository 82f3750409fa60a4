"""The outcome of a query, passed from the process that sends to the one that counts.

Path: send/loop.py packs -> a pipe -> send/process.py -> here -> results.py, verify/verifier.py.
      Twin of native/src/load_sender/messages.rs.
Rule 1: times are nanoseconds of the monotonic clock, which both processes share.
Rule 2: a reply goes over the pipe once, with a number that outcomes refer to.  So a reply that arrives a thousand times
        is parsed once.
Rule 3: the compiled sender sends counts; then it sends outcomes only if answers are judged.

The different replies of a run that a sender has told the counting process, so that each is told once:
Rule: replies that have not come for a while are dropped, so that the others stay: if all were dropped at once, the
      counting process would have to decode and judge every reply again in the same moment.

Events of connections, passed from the process that sends to the one that counts:
Rule: a set-up lasts from the request for a connection until it can send a query, including handshakes.

It also packs the results of the pods' lookups for the pipe.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from struct import Struct, pack, unpack
from typing import Final, Generic, NamedTuple, TypeVar

import msgspec

from hsdns.load.pods import FORMS, PodLookup
from hsdns.load.questions import Question
from hsdns.resolver import MODELS, cares, glibc, go, musl
from hsdns.resolver.model import Result
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
CONNECTIONS: Final = b"n"  # facts of connections (pack_facts)
READY: Final = b"b"
END: Final = b"e"

# What a count belongs to: a second of the schedule, or with OF_KIND added a kind of question.
LATENESS, LATENCY, RCODE, LOST_COUNT, NOT_SENT_COUNT, TRUNCATED = range(6)
OF_KIND: Final = 8

LOST: Final = 0  # in place of the time at which the reply arrived
NOT_SENT: Final = -1


_REPLY: Final = Struct(">II")  # as compiled code writes it
# The fields of an Outcome, without its class.
PlainOutcome = tuple[int, int, int, int, int, int]


class Outcome(NamedTuple):
    """One query: the number of its question, the flags of its reply, and when it was due, sent and answered.

    Without a reply, `received` is LOST or NOT_SENT; `reply` is its number, 0 if replies are not wanted.
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

    def replace(self, content: bytes, value: V) -> None:
        """Replace the value that get() has just returned."""
        self._new[content] = value


OPENED: Final = 0  # value: nanoseconds of the set-up
NOT_OPENED: Final = 1
ENDED: Final = 2
AGAIN: Final = 3  # a query is sent again, because its connection ended before the reply
LATE: Final = 4  # a reply that no query waits for
NOT_DNS: Final = 5  # the response to a query is not a DNS message
FELL: Final = 6  # a query with a truncated answer over UDP is sent again over TCP

# Why connections end.
SPENT: Final = "had all its queries"
IDLE: Final = "idle"
CLOSED: Final = "closed by the server"
RESET: Final = "reset by the server"
SILENT: Final = "silent for the time-out"
AT_END: Final = "end of the run"


class Fact(NamedTuple):
    """A fact of some kind; `why` is its reason in words, if it has one."""

    kind: int
    value: int = 0
    why: str = ""


_FACTS: Final = msgspec.msgpack.Decoder(list[tuple[int, int, str]])


def pack_facts(facts: Sequence[Fact]) -> bytes:
    """Facts as octets."""
    return msgspec.msgpack.encode(facts)


def unpack_facts(octets: bytes) -> list[tuple[int, int, str]]:
    """The facts in octets, as plain tuples in the order of Fact."""
    return _FACTS.decode(octets)


LOOKUPS: Final = b"l"  # the kind of message
FOUND: Final = "found"  # it has addresses
NONE: Final = "none"  # the resolver reports that the name does not exist, or has no address
FAILED: Final = "failed"  # no result: no reply in time, or an error
UNFINISHED: Final = "unfinished"  # the run ended before
ENDS: Final = (FOUND, NONE, FAILED, UNFINISHED)
_NONE: Final = frozenset(
    (glibc.NONAME, glibc.NODATA, musl.NONAME, musl.NODATA, go.NO_HOST, cares.NODATA, cares.NOT_FOUND)
)  # fmt: skip
_LOOKUP: Final = Struct("=BBBHHHHqqq")
# By the number in a Lookup: the names of resolvers, and the forms in which names are written.
RESOLVER_NAMES: Final = tuple(MODELS)
FORM_NAMES: Final = tuple(FORMS)
_MOST: Final = 0xFFFF  # counted queries of a lookup


class Lookup(NamedTuple):
    """A lookup with the numbers of its resolver and form (kinds_of) and of its end (ENDS), and its queries.

    Times are nanoseconds of the monotonic clock.  `wasted` queries were for another name than the intended one, `again`
    counts queries repeated in the same lookup, `over_tcp` those over TCP.  `began` is when the generator began it;
    `ended` of an UNFINISHED one is when it was given up.
    """

    resolver: int
    form: int
    end: int
    queries: int
    wasted: int
    again: int
    over_tcp: int
    planned: int
    began: int
    ended: int


def end_of(result: Result) -> str:
    """The end (ENDS) of a result."""
    if result.addresses:
        return FOUND
    return NONE if result.error in _NONE else FAILED


def kinds_of(resolver: str, wanted: PodLookup) -> tuple[int, int]:
    """The numbers of a lookup's resolver and form."""
    return RESOLVER_NAMES.index(resolver), FORM_NAMES.index(wanted.form)


def pack_lookups(found: Iterable[Lookup]) -> bytes:
    """Lookups as octets."""
    pack = _LOOKUP.pack
    return b"".join(
        [pack(*each[:3], *(min(count, _MOST) for count in each[3:7]), *each[7:]) for each in found]
    )


def unpack_lookups(octets: bytes) -> Iterator[Lookup]:
    """The lookups in octets of pack_lookups()."""
    return map(Lookup._make, _LOOKUP.iter_unpack(octets))
