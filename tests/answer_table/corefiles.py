"""Corefiles with `kubernetes`, a small cluster, and what compares the answer table with the chain.

Path: tests only.
"""

from __future__ import annotations

from pathlib import Path

from hsdns.cluster.objects import EndpointSlice
from hsdns.wire.edns import Edns
from tests.support.cluster.objects import endpoint_slice, service
from tests.support.plugins.corefiles import KUBEADM
from tests.support.servers.memory_server import KUBERNETES, MemoryServer, ask, cluster_objects

TABLES = Path(__file__).with_name("tables.txt")
STOCK = KUBEADM.replace("/etc/resolv.conf", "192.0.2.1")
OBJECTS = cluster_objects(
    service("default/web", "10.96.0.1"),
    service("default/db"),
    endpoint_slice("default/db-1", "db", "10.0.0.1 host=db-0", "10.0.0.2 host=db-1"),
    service("default/here", external="web.default.svc.cluster.local"),
    service("default/there", external="www.example.org"),
    namespaces=("default", "kube-system"),
)

SUB = "x.sub.cluster.local."
PLAIN = "x.cluster.local."
CACHED = "cache 30 {\ndisable denial cluster.local\n}\n"


def lines(text: str) -> str:
    """Lines of a Corefile as tables.txt writes them."""
    return text.replace("\\n", "\n").replace("KUBERNETES", KUBERNETES)


def block(text: str, key: str = ".:53") -> str:
    return f"{key} {{\n{text}\n}}\n"


def hosts(lines: str, arguments: str = "/nonexistent", through: str = "fallthrough") -> str:
    return f"hosts {arguments} {{\n{lines}\n{through}\n}}\n{KUBERNETES}"


def kubernetes(zones: str, *lines: str) -> str:
    return f"kubernetes {zones} {{\n" + "\n".join(lines) + "\n}"


def many_endpoints(count: int) -> list[EndpointSlice]:
    return [
        endpoint_slice(
            f"default/db-{number}", "db", *(f"10.{number}.0.{host}" for host in range(250))
        )
        for number in range(2, 2 + count)
    ]


def assert_same(
    memory_server: MemoryServer, question: str, *, is_fast: bool, edns: Edns | None = None
) -> None:
    """The table answers, as the chain does, or does not."""
    wire = ask(question, edns=edns)
    found = memory_server.from_table(wire)
    assert (found is not None) is is_fast, question
    if found is not None:
        assert found == memory_server.from_chain(wire, stores=False), question
