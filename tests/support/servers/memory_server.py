"""A server with one listener and its answer table, in memory: a Corefile, a cluster and a scripted clock.

Path: a test -> MemoryServer.from_table (the table alone) or from_chain (the handlers, whose replies are stored).
Rule 1: the table and all that belongs to it are of one twin of the fast path; without a twin there is no table.
Rule 2: nothing waits: tasks that plugins start are dropped.
"""

from __future__ import annotations

from collections.abc import Coroutine, Sequence
from copy import copy
from types import ModuleType
from typing import Any

from hsdns.answer_table.writer import AnswerTableWriter
from hsdns.assemble import Configuration
from hsdns.chain import Endpoint
from hsdns.cluster.objects import Event, Namespace, Object, ObjectMeta, Synced, Upserted
from hsdns.plugins import ORDER
from hsdns.plugins.kubernetes import Kubernetes
from hsdns.server.transport.sockets import socket_address
from hsdns.wire.decode import BadQuery, decode
from hsdns.wire.encode import MAX_TCP_LEN, MIN_UDP_LEN, encode_query, udp_limit
from hsdns.wire.iana import type_from_text
from hsdns.wire.message import RD, Query
from hsdns.wire.name import Name
from tests.support.coroutines.eager import finish
from tests.support.plugins.corefiles import assembled
from tests.support.plugins.runtime import Spawned
from tests.support.servers.scripted_runtime import ScriptedRuntime
from tests.support.servers.scripted_source import ScriptedSource

CLIENT = Endpoint("192.0.2.1", 40000)
V6 = Endpoint("2001:db8::1", 40000)
LOCAL = Endpoint("192.0.2.53", 53)
KUBERNETES = "kubernetes cluster.local in-addr.arpa ip6.arpa {\npods insecure\n}\n"


class MemoryRuntime(ScriptedRuntime):
    """A runtime without tasks; `without_tables` are processors of the same chains that have no answer table."""

    def __init__(self, configuration: Configuration, twin: ModuleType | None) -> None:
        super().__init__(configuration, twin)
        self.metrics.before_collect(self._fold)

    def make_processors(self) -> None:
        """Make the processors, and those without answer tables."""
        super().make_processors()
        self.without_tables = {server: copy(each) for server, each in self.processors.items()}
        for processor in self.without_tables.values():
            processor.writer = None

    def _fold(self) -> None:
        for processor in self.processors.values():
            if processor.writer is not None:
                processor.writer.hits.count()
                processor.writer.count_forwarded()

    def spawn(self, coro: Coroutine[Any, Any, Any], name: str) -> Any:
        """Drop it."""
        coro.close()

    def spawn_watch(self, coro: Coroutine[Any, Any, Any], name: str) -> Any:
        """Drop it."""
        coro.close()
        return Spawned(coro)


class MemoryServer:
    """The server."""

    def __init__(
        self,
        corefile: str,
        twin: ModuleType | None,
        objects: Sequence[Object] = (),
        *,
        synced: bool = True,
    ) -> None:
        self.configuration = assembled(corefile, warn=lambda sentence: None)
        self.runtime = MemoryRuntime(self.configuration, twin)
        self.plugins = [each for each in self.configuration.plugins if isinstance(each, Kubernetes)]
        for plugin in self.plugins:
            plugin.watch.source, plugin._startup_timeout = ScriptedSource([], synced=False), 0.0
            if twin is not None:
                plugin.state.names = twin.ClusterNames()
        for name in ORDER:
            for each in self.configuration.plugins:
                if each.name == name:
                    finish(each.start(self.runtime))
        self.runtime.make_processors()
        (self.server,) = (each.listen.server for each in self.configuration.listeners)
        self.apply(*(Upserted(found) for found in objects))
        if synced:
            self.apply(Synced())

    @property
    def has_table(self) -> bool:
        """Whether any block may have an answer table."""
        return self.runtime.processors[self.server].writer is not None

    @property
    def writer(self) -> AnswerTableWriter:
        """The writer of the answer table."""
        found = self.runtime.processors[self.server].writer
        assert found is not None, "no block of this Corefile may have an answer table"
        return found

    def apply(self, *events: Event) -> None:
        """Apply events to the cluster, in one batch."""
        for plugin in self.plugins:
            plugin.store.apply(events)

    def from_table(self, wire: bytes, protocol: str = "udp", *, v6: bool = False) -> bytes | None:
        """The reply of the table; over UDP truncated to the client's size.  TableOverUdp asks it over a socket."""
        try:
            limit = MAX_TCP_LEN if protocol == "tcp" else udp_limit(decode(wire))
        except BadQuery:  # what cannot be decoded has no size of its own
            limit = MIN_UDP_LEN
        table = self.writer.table
        client = socket_address(V6 if v6 else CLIENT)
        return table.lookup(wire, client=client, limit=limit, now=self.runtime.now)

    def from_chain(
        self, wire: bytes, protocol: str = "udp", *, stores: bool = True, client: Endpoint = CLIENT
    ) -> bytes | None:
        """The reply of the chain, which is stored in the answer table or not."""
        runtime = self.runtime
        processor = (runtime.processors if stores else runtime.without_tables)[self.server]
        known = processor.writer
        if known is not None:
            processor.writer = _StoringOnly(known)  # type: ignore[assignment]  # it stands in for one
        try:
            reply = finish(processor.answer(wire, client, LOCAL, protocol, runtime.now))
        finally:
            processor.writer = known
        if known is not None:
            known.flush()
        return reply

    def stores(self, question: str, **options: Any) -> bool:
        """Whether the table answers a question after the chain has answered it twice."""
        wire = ask(question, **options)
        self.from_chain(wire)
        self.from_chain(wire)  # the first NXDOMAIN of a negative zone is its template
        return self.from_table(wire) is not None


class _StoringOnly:
    """A writer whose table stores replies, but finds none."""

    def __init__(self, writer: AnswerTableWriter) -> None:
        self.dependencies = writer.dependencies
        self.enqueue = writer.enqueue
        self.table = self

    @staticmethod
    def lookup(*_: object, **__: object) -> None:
        """Find nothing."""


def ask(question: str, *, query_id: int = 7, flags: int = RD, **options: Any) -> bytes:
    """The octets of a query for `QNAME [QTYPE]`; options are those of Query.ask()."""
    qname, _, qtype = question.partition(" ")
    query = Query.ask(
        Name.from_text(qname),
        type_from_text(qtype or "A"),
        query_id=query_id,
        flags=flags,
        **options,
    )
    return encode_query(query, query_id)


def cluster_objects(*objects: Object, namespaces: Sequence[str] = ("default",)) -> list[Object]:
    """The objects, after the namespaces that they are in."""
    return [
        *(Namespace(ObjectMeta(name=name, resource_version="1")) for name in namespaces),
        *objects,
    ]
