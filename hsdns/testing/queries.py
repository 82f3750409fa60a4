"""The recorded queries of a cluster, and assertions about them.

Path: server.py records each query when it arrives, before its reply is sent -> here -> the test.
Rule 1: an assertion first waits until the server has handled all queries that had arrived.
Rule 2: a failed assertion shows the most similar recorded query, and the latest ones.
Rule 3: a name is written as in a pod (pod.py).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Final, overload

from hsdns.corefile.tree import did_you_mean
from hsdns.testing.errors import ClusterError, checks_keywords, hides, unknown
from hsdns.testing.pod import NAMESPACE, Pod, forms
from hsdns.wire import is_address
from hsdns.wire.iana import RRType, type_from_text

__tracebackhide__ = hides

MOST: Final = 100_000  # recorded queries, some 30 MB
SHOWN: Final = 10  # in a failure
_NOT_ASKED: Final = frozenset({"OPT", "TSIG"})  # types of records that no question has
TYPES: Final = tuple(each for each in vars(RRType) if each.isupper() and each not in _NOT_ASKED)


@dataclass(slots=True)
class Query:
    """One query: `time` in seconds since the cluster started, `name` in lower case without a final dot.

    `client` is the name of a pod, or an address; `transport` is udp or tcp; `rcode` is None until it is answered.
    `faults` are the names of the rules that affected it.
    """

    time: float
    client: str
    transport: str
    name: str
    type: str
    rcode: str | None = None
    faults: tuple[str, ...] = ()

    def __str__(self) -> str:
        """One line, as failures show it."""
        who, what = f"{self.client}  {self.transport}", f"{self.name or '.'} {self.type}"
        by = f"  by {', '.join(self.faults)}" if self.faults else ""
        return f"{self.time:.3f} s  {who}  {what}  {self.rcode or '(no reply)'}{by}"


class Queries(Sequence[Query]):
    """All queries since the start, or since clear(), in the order in which they came."""

    def __init__(self, settle: Callable[[], None], clients: Callable[[], Sequence[str]]) -> None:
        self.settle = settle  # returns when all queries that have arrived are recorded
        self._clients = clients  # the names of the pods
        self._noted: deque[Query] = deque(maxlen=MOST)
        self._count = 0
        self._followed: list[Callable[[Query], None]] = []

    def __len__(self) -> int:
        return len(self._noted)

    @overload
    def __getitem__(self, index: int) -> Query: ...
    @overload
    def __getitem__(self, index: slice) -> list[Query]: ...
    def __getitem__(self, index: int | slice) -> Query | list[Query]:
        """One query, or some."""
        return [*self._noted][index]

    def __iter__(self) -> Iterator[Query]:
        return iter([*self._noted])

    def note(self, query: Query) -> None:
        """Add a query; called in the server's thread."""
        self._noted.append(query)
        self._count += 1
        for each in self._followed:
            each(query)

    @contextmanager
    def followed(self, note: Callable[[Query], None]) -> Iterator[None]:
        """A context manager that calls `note` for each query, in the server's thread."""
        self.settle()
        self._followed = [*self._followed, note]
        try:
            yield
        finally:
            self.settle()
            self._followed = [each for each in self._followed if each is not note]

    def clear(self) -> None:
        """Delete the recorded queries."""
        self.settle()
        self._noted.clear()
        self._count = 0

    @checks_keywords
    def assert_asked(
        self,
        name: str,
        type: str | None = None,  # noqa: A002 - the word for it
        *,
        from_: Pod | str | None = None,
        times: int | None = None,
    ) -> None:
        """Fail unless this query was received, `times` times if this is given; without `type`, of any type."""
        __tracebackhide__ = True  # pytest shows the line of the test
        wanted = self._wanted(name, type, from_)
        found = [each for each in self._taken() if wanted.describes(each)]
        if times is None and not found:
            raise AssertionError(f"no query {wanted} came{self._shown(wanted)}")
        if times is not None and len(found) != times:
            self._check_complete()
            raise AssertionError(
                f"{_counted(found)} {wanted} came, not {times}{self._shown(wanted)}"
            )

    @checks_keywords
    def assert_not_asked(
        self,
        name: str,
        type: str | None = None,  # noqa: A002 - the word for it
        *,
        from_: Pod | str | None = None,
    ) -> None:
        """Fail if this query was received."""
        __tracebackhide__ = True
        wanted = self._wanted(name, type, from_)
        found = [each for each in self._taken() if wanted.describes(each)]
        if found:
            lines = "".join(f"\n  {each}" for each in found[:SHOWN])
            raise AssertionError(f"{_counted(found)} {wanted} came, and none was expected:{lines}")
        self._check_complete()

    @checks_keywords
    def assert_order(self, *asked: str | tuple[str, str], from_: Pod | str | None = None) -> None:
        """Fail unless these came in this order, with any others in between; each is a name, or a name and a type."""
        __tracebackhide__ = True
        wanted = [
            self._wanted(each, None, from_) if isinstance(each, str) else self._wanted(*each, from_)
            for each in asked
        ]
        rest = iter(self._taken())
        for at, each in enumerate(wanted):
            if not any(each.describes(query) for query in rest):
                after = f" after {wanted[at - 1]}" if at else ""
                raise AssertionError(f"no query {each} came{after}{self._shown(each)}")

    def _wanted(self, name: str, type_: str | None, from_: Pod | str | None) -> _Wanted:
        if type_ is not None:
            type_ = type_.upper()
            try:
                type_from_text(type_)
            except ValueError:
                hint = did_you_mean(type_, TYPES) or f"; write one such as {', '.join(TYPES[:4])}"
                raise ClusterError(f'there is no record type "{type_}"{hint}') from None
        client, namespace = None, NAMESPACE
        if isinstance(from_, Pod):
            client, namespace = from_.name, from_.namespace
        elif from_ is not None:
            client = from_
            if not is_address(client) and client not in self._clients():
                raise unknown("there is no pod", client, self._clients())
        return _Wanted(name, forms(name, namespace), type_, client)

    def _taken(self) -> list[Query]:
        self.settle()
        return [*self._noted]

    def _check_complete(self) -> None:
        if self._count > MOST:
            raise ClusterError(
                f"{self._count} queries came, and only the last {MOST} are noted; "
                "call queries.clear() before what the test is about"
            )

    def _shown(self, wanted: _Wanted) -> str:
        """The most similar query, and the latest ones, as lines."""
        noted = [*self._noted]
        if not noted:
            return "; no query came at all"
        nearest = max(noted, key=wanted.likeness)
        last = noted[-SHOWN:]
        head = f"the last {SHOWN} of {len(noted)}" if len(noted) > SHOWN else f"all {len(noted)}"
        lines = [f"nearest: {nearest}", f"{head}:", *(f"  {each}" for each in last)]
        return "".join(f"\n  {line}" for line in lines)


@dataclass(frozen=True)
class _Wanted:
    """The query of an assertion; `forms` are the names that may have been queried for it."""

    name: str
    forms: tuple[str, ...]
    type: str | None
    client: str | None

    def __str__(self) -> str:
        source = f" from {self.client}" if self.client is not None else ""
        return f"{self.name} {self.type or '(any type)'}{source}"

    def describes(self, query: Query) -> bool:
        """Whether a query is one of these."""
        return (
            query.name in self.forms
            and self.type in (None, query.type)
            and self.client in (None, query.client)
        )

    def likeness(self, query: Query) -> float:
        """The similarity of a query, for failures."""
        name = max(SequenceMatcher(None, form, query.name).ratio() for form in self.forms)
        return (
            name
            + 0.1 * (self.type in (None, query.type))
            + 0.1 * (self.client in (None, query.client))
        )


def _counted(found: Sequence[Query]) -> str:
    return "1 query" if len(found) == 1 else f"{len(found)} queries"
