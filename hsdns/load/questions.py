"""The questions of a load, and their order.

Path: read_queries() or cluster/names.py makes the questions -> here -> send/loop.py takes the numbers one by one.
Rule 1: an order depends only on its arguments; the same seed gives the same order.
Rule 2: the questions of a file are sent from the first line to the last, repeatedly, as dnsperf does; names of a
        cluster are drawn.

Flags that give shares to kinds: `KIND=SHARE`, separated by commas; shares are relative to their sum.

Reads dnsperf's files of queries: a line for each, `NAME TYPE`:
Rule 1: empty lines and those that begin with `;` are skipped, as dnsperf does; here also those that begin with `#`,
        which dnsperf would send as queries.
Rule 2: anything else must be a query.  dnsperf takes the first type that begins with the given text (C for CNAME), and
        ignores what follows the type; here the type must be complete, and may be followed by its class, IN.
Source: dnsperf 2.14, "Constructing a query input file", src/dns.c and src/qtype.c.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from itertools import accumulate, count, cycle
from random import Random
from typing import Any, Final, NamedTuple

import msgspec

from hsdns.corefile.tree import did_you_mean
from hsdns.load.errors import LoadError
from hsdns.load.pods import PodPlan, meant
from hsdns.load.verify.judge import Answer
from hsdns.wire.decode import HEADER_LEN
from hsdns.wire.edns import Edns
from hsdns.wire.encode import encode_query
from hsdns.wire.iana import RRClass, RRType, type_from_text
from hsdns.wire.message import RD, Query
from hsdns.wire.name import ROOT, Name

MOST_DIGITS: Final = 9


def read_shares(
    text: str,
    known: Iterable[str],
    flag: str,
    what: str,
    *,
    example: int = 20,
    alone: bool = False,
    nothing: str = "",
    unknown: Callable[[str], str] = lambda kind: "",
) -> dict[str, int]:
    """Read the shares in a flag, in its order; raise LoadError.

    `what` names a kind in messages, `example` is a share to propose, `nothing` describes the effect of shares that are
    all 0.  `alone`: a kind without a share has a share of 1.  `unknown` may return why a kind is not one of these.
    """
    known = list(known)
    found: dict[str, int] = {}
    for part in text.split(","):
        kind, equals, share = part.strip().partition("=")
        if kind not in known:
            reason = unknown(kind) or did_you_mean(kind, known) or f"; there are {', '.join(known)}"
            raise LoadError(f'--{flag}: "{kind}" is no {what}{reason}')
        if not equals and alone:
            share = "1"
        if not (share.isascii() and share.isdigit() and len(share) <= MOST_DIGITS):
            raise LoadError(
                f'--{flag}: {kind} needs a share, such as {kind}={example}; found "{share}"'
            )
        if kind in found:
            raise LoadError(f"--{flag}: {kind} is given twice; remove one of them")
        found[kind] = int(share)
    if not any(found.values()):
        raise LoadError(f'--{flag}: the shares of "{text}" are all 0{nothing}')
    return found


AT_ONCE: Final = 1024  # numbers drawn together
_IN: Final = RRClass.IN.to_bytes(2, "big")
ABSENT: Final = "absent"  # the group of names that do not exist


class Question(NamedTuple):
    """One question; `group` is the kind of its name, "file" for questions of a file.

    `flags` are those of the header, `own_edns` a fixed payload size: 0 for no EDNS, None for that of the run.  `do`:
    the DNSSEC OK bit of the OPT record (RFC 3225).
    """

    name: Name
    qtype: int
    group: str
    flags: int = RD
    own_edns: int | None = None
    do: bool = False

    def query(self, edns: int = 0) -> Query:
        """The query, with an OPT record of that payload size unless it is 0."""
        size = edns if self.own_edns is None else self.own_edns
        record = Edns(size, do=self.do) if size else None
        return Query.ask(self.name, self.qtype, flags=self.flags, edns=record)

    @property
    def section(self) -> bytes:
        """The question section of the query."""
        return self.name.wire + self.qtype.to_bytes(2, "big") + _IN

    def octets(self, edns: int = 0) -> bytes:
        """The query on the wire, without its ID."""
        size = edns if self.own_edns is None else self.own_edns
        before, after = _around(self.flags, size, self.do)
        return before + self.section + after


@cache
def _around(flags: int, size: int, do: bool) -> tuple[bytes, bytes]:
    """The octets before and after the question section of a query, without its ID."""
    question = Question(ROOT, RRType.A, "", flags, size, do)
    octets, begin = encode_query(question.query(), 0)[2:], HEADER_LEN - 2
    return octets[:begin], octets[begin + len(question.section) :]


LABEL_LEN: Final = 10  # of a random label: hexadecimal digits


class RandomLabels(Sequence[bytes]):
    """Queries without IDs; a label is drawn for each that is taken, so that no cache has its answer."""

    def __init__(self, queries: Sequence[bytes], random: Random) -> None:
        self._parts = [(each[: HEADER_LEN - 2], each[HEADER_LEN - 2 :]) for each in queries]
        self._draw = random.getrandbits

    def __len__(self) -> int:
        return len(self._parts)

    def __getitem__(self, number: Any) -> Any:
        header, rest = self._parts[number]
        return b"%b\x0a%010x%b" % (header, self._draw(LABEL_LEN * 4), rest)


class Recorded(msgspec.Struct, frozen=True):
    """Times in nanoseconds from the begin, and numbers of questions: arrays of the types q and I, as octets.

    `clients` are the numbers of the clients, also of the type I.
    """

    times: bytes
    order: bytes
    clients: bytes = b""


class Questions(NamedTuple):
    """All questions; `weights` give how often each is sent, `mixes` that in each stage, empty for in order.

    With `pods`, these look up names instead; their questions become known when they are sent.  `recorded`: when each is
    sent.  `known` has the right answers to the first questions at the time of creation, for truth.Truth.
    """

    all: Sequence[Question]
    weights: Sequence[float] = ()
    seed: int = 0
    pods: PodPlan | None = None
    recorded: Recorded | None = None
    known: Sequence[Answer] = ()
    mixes: Sequence[Sequence[float]] = ()

    @property
    def first(self) -> Question:
        """A question to check whether a server answers; its name exists, if any does."""
        if self.pods is not None:
            plan = self.pods
            target = next((each for each in plan.targets if each.kind != ABSENT), plan.targets[0])
            return Question(Name.from_text(meant(target, plan.domain)), RRType.A, target.kind)
        return next((each for each in self.all if each.group != ABSENT), self.all[0])


def order(length: int, weights: Sequence[float], seed: int) -> Iterator[int]:
    """Numbers below `length` without end: in order, or drawn by `weights` if there are any."""
    if not weights:
        yield from cycle(range(length))
        return
    random, numbers, cumulated = Random(seed), range(length), list(accumulate(weights))
    while True:
        yield from random.choices(numbers, cum_weights=cumulated, k=AT_ONCE)


def zipf(length: int, exponent: float) -> Iterator[float]:
    """Weights by rank: 1, 1/2^s, 1/3^s ...; all equal for an exponent of 0."""
    return (1.0 / rank**exponent for rank, _ in zip(count(1), range(length), strict=False))


GROUP: Final = "file"
BLOCKS: Final = ("require", "prohibit", "add", "delete", "send")  # of dynamic updates
# Types that have names in dnsperf but not in the rest of hsdns.
MORE_TYPES: Final = {
    "NSAP": 22, "NSAP-PTR": 23, "A6": 38, "SINK": 40, "DOA": 259, "AMTRELAY": 260,
}  # fmt: skip
_TYPES: Final = ("A", "AAAA", "ANY", "CNAME", "HTTPS", "MX", "NS", "PTR", "SOA", "SRV", "TXT")


def read_queries(lines: Iterable[str], path: str) -> list[Question]:
    """The questions of a file; raise LoadError.  `path` is used in messages."""
    found = []
    for number, line in enumerate(lines, 1):
        words = line.split()
        if not words or line[0] in ";#":
            continue
        if "\0" in line:
            raise LoadError(f"{path}:{number}: this is not text; a file for dnsperf -B is not read")
        if words[0].lower() in BLOCKS and (len(words) == 1 or len(words) > 2):
            raise LoadError(
                f'{path}:{number}: "{line.strip()}" is of a dynamic update (dnsperf -u), and only queries are sent'
            )
        if len(words) not in (2, 3) or (len(words) == 3 and words[2].upper() != "IN"):
            raise LoadError(
                f'{path}:{number}: "{line.strip()}" is not a name and a type; write a line such as www.example.com A'
            )
        name, qtype = words[:2]
        try:
            qname = Name.from_text(name)
        except ValueError as error:
            raise LoadError(f'{path}:{number}: "{name}" is not a domain name: {error}') from None
        known = MORE_TYPES.get(qtype.upper())
        try:
            found.append(Question(qname, known or type_from_text(qtype.upper()), GROUP))
        except ValueError as error:
            raise LoadError(f"{path}:{number}: {error}{did_you_mean(qtype, _TYPES)}") from None
    if not found:
        raise LoadError(
            f"{path}: there are no queries in it; write lines such as www.example.com A"
        )
    return found
