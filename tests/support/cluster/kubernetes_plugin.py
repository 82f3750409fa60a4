"""A kubernetes plugin that serves the objects of a test, asked without sockets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hsdns.chain import Next
from hsdns.cluster.objects import Event, Object, Synced
from hsdns.corefile.properties import read_properties
from hsdns.plugins.kubernetes import Kubernetes
from hsdns.wire.message import Reply, unwritten
from hsdns.wire.name import Name
from tests.support.cluster.objects import namespace, upserts
from tests.support.coroutines.eager import finish
from tests.support.plugins.requests import make_request, next_with
from tests.support.plugins.runtime import FakeRuntime
from tests.support.servers.scripted_source import ScriptedSource


class Cluster:
    """A started kubernetes plugin over objects, asked without sockets; `existing` namespaces have an object."""

    def __init__(
        self,
        *objects: Object,
        zones: str = "cluster.local in-addr.arpa ip6.arpa",
        synced: bool = True,
        existing: Sequence[str] = ("testns",),
        local: Sequence[str] = (),
        **options: Any,
    ) -> None:
        values = read_properties([], Kubernetes.PROPERTIES) | options
        values |= {"source": ScriptedSource([], synced=False), "startup_timeout": 0.0}
        names = tuple(map(Name.from_text, zones.split()))
        self.plugin = Kubernetes(names, values)
        self.runtime = FakeRuntime()
        self.runtime.addresses = list(local)
        finish(self.plugin.start(self.runtime))
        for coro in self.runtime.spawned.values():
            coro.close()
        self.apply(*upserts(*map(namespace, existing)), *upserts(*objects))
        if synced:
            self.apply(Synced())

    def apply(self, *events: Event) -> None:
        """Let events happen."""
        self.plugin.store.apply(events)

    def ask(self, question: str, below: Reply | None = None, **fields: Any) -> Reply:
        """The reply to `QNAME [QTYPE]`; `below` is what the rest of the chain would say."""
        qname, _, qtype = question.partition(" ")
        following: Next = next_with(below or unwritten(2, "nothing below"))
        return finish(self.plugin.handle(make_request(qname, qtype or "A", **fields), following))
