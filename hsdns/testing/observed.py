"""Wraps a processor, and records each query that can be decoded, with the faults that affected it.

Path: server.py puts it between a listener and its processor -> queries.py.
Rule 1: a query is recorded before it is answered, its rcode before the reply is sent.
Rule 2: each pod has its own address in the recorded queries, because the networks of all pods use the same address.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hsdns.chain import Endpoint
from hsdns.faults.rules import Bite
from hsdns.query import QueryProcessor
from hsdns.testing.names import PodIdentity
from hsdns.testing.queries import Query
from hsdns.wire.decode import BadQuery, decode
from hsdns.wire.iana import rcode_to_text, type_to_text

Note = Callable[[Query], None]


class Asking:
    """The current query, to record the faults that affect it."""

    def __init__(self) -> None:
        self.query: Query | None = None

    def note(self, bite: Bite) -> None:
        """Record a fault with the query that it affects; rules are evaluated before any wait."""
        query = self.query
        if query is not None and bite.line.get("name") == f"{query.name}.":
            query.faults = (*query.faults, bite.rule.name)


class ObservedProcessor(QueryProcessor):
    """Answers with `answering`; all its clients are `pod`, if it is given."""

    def __init__(
        self,
        answering: QueryProcessor,
        note: Note,
        clock: Callable[[], float],
        asking: Asking,
        pod: PodIdentity | None = None,
    ) -> None:
        super().__init__(answering.server, answering._blocks)
        self.answering = answering
        self._note, self._clock, self._asking, self._pod = note, clock, asking, pod

    def of_pod(self, pod: PodIdentity) -> ObservedProcessor:
        """The same for the sockets of a pod."""
        return ObservedProcessor(self.answering, self._note, self._clock, self._asking, pod)

    async def answer(
        self, wire: bytes, client: Endpoint, local: Endpoint, protocol: str, *rest: Any
    ) -> bytes | None:
        """Record a query, then answer it."""
        who = client.address
        if self._pod is not None:
            who, client = self._pod.name, client._replace(address=self._pod.address)
        noted = None
        try:
            query = decode(wire)
        except BadQuery:
            pass
        else:
            name = query.qname.lowered().to_text().removesuffix(".")
            noted = Query(self._clock(), who, protocol, name, type_to_text(query.qtype))
            self._note(noted)
        self._asking.query = noted
        reply = await self.answering.answer(wire, client, local, protocol, *rest)
        if noted is not None and reply is not None:
            noted.rcode = rcode_to_text(reply[3] & 15)
        return reply
