"""A server in memory: what rules about connections, the process and the watch do that no file of a scenario has."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from hsdns.chain import Endpoint
from hsdns.fault_scenarios.memory_server import MemoryServer, Objects
from hsdns.fault_scenarios.play import COREFILE as STAGE
from hsdns.fault_scenarios.play import VirtualLoop
from hsdns.fault_scenarios.scenario import Step
from hsdns.wire.decode import decode_reply
from hsdns.wire.encode import encode_query
from hsdns.wire.message import Query
from hsdns.wire.name import Name

COREFILE = """\
. {
    template IN A . {
        answer "{{ .Name }} 30 IN A 192.0.2.1"
    }
}
"""
WEB = encode_query(Query.ask(Name.from_text("web."), 1), 1)
LOCAL = Endpoint("127.0.0.1", 53)


async def fate(server: MemoryServer, transport: str = "tcp", port: int = 1) -> str:
    """What comes of a query, and after how many seconds."""
    clock = asyncio.get_running_loop().time
    began = clock()
    try:
        reply = await server.answer(WEB, transport, Endpoint("127.0.0.1", port), LOCAL)
    except ConnectionResetError:
        return f"reset {clock() - began:.1f}"
    return f"{'silence' if reply is None else 'reply'} {clock() - began:.1f}"


def serve(run: Callable[[MemoryServer], Awaitable[list[str]]]) -> list[str]:
    async def served() -> list[str]:
        server = MemoryServer(COREFILE)
        await server.start()
        try:
            return await run(server)
        finally:
            await server.stop()

    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(served())


@pytest.mark.parametrize(
    ("rule", "over_tcp"),
    [
        ("refuse", "reset 0.0"),
        ("hang", "silence 0.0"),
        ("reset", "reset 0.0"),
        ("slow 10", "reply 3.7"),  # 37 octets
        ("refuse nth 2", "reply 0.0"),
        ("delay 3s", "reply 3.0"),
    ],
)
def test_connections(rule: str, over_tcp: str) -> None:
    async def run(server: MemoryServer) -> list[str]:
        server.add(f"{rule} named x")
        found = [await fate(server), await fate(server, "udp")]
        server.remove("x")
        return [*found, await fate(server, port=2), f"hits {server.hits['x']}"]

    over_udp = "reply 3.0" if rule == "delay 3s" else "reply 0.0"
    hits = {"refuse nth 2": 0, "delay 3s": 2}.get(rule, 1)
    assert serve(run) == [over_tcp, over_udp, "reply 0.0", f"hits {hits}"]


def test_a_connection_is_decided_about_once() -> None:
    async def run(server: MemoryServer) -> list[str]:
        server.add("refuse nth 2 named x")
        return [await fate(server, port=port) for port in (1, 1, 2, 2, 3)]

    assert serve(run) == ["reply 0.0", "reply 0.0", "reset 0.0", "reset 0.0", "reply 0.0"]


def test_a_process_that_dies_comes_back() -> None:
    async def run(server: MemoryServer) -> list[str]:
        server.add("delay 3s named slow")
        waiting = asyncio.create_task(fate(server, "udp"))
        await asyncio.sleep(1)
        server.remove("slow")
        server.add("die 10s named dead")
        await asyncio.sleep(1)
        found = [await fate(server, "udp"), await fate(server)]
        await asyncio.sleep(10)
        return [await waiting, *found, await fate(server, "udp"), f"hits {server.hits['dead']}"]

    assert serve(run) == ["silence 1.0", "silence 0.0", "reset 0.0", "reply 0.0", "hits 1"]


DB = """\
apiVersion: v1
kind: Service
metadata: {name: db, namespace: shop}
spec: {clusterIP: None, ports: [{port: 80}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: db-1, namespace: shop, labels: {kubernetes.io/service-name: db}}
addressType: IPv4
ports: [{port: 80}]
endpoints: [{addresses: [10.0.0.1]}]
"""


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        ("watch forbidden endpointslices", [3, 0, "hits 1"]),
        ("watch forbidden services", [3, 0, "hits 1"]),
        ("watch forbidden pods", [0, 0, "hits 0"]),
        ("watch away", [3, 0, "hits 3"]),  # with the namespace
        ("freeze", [3, 0, "hits 1"]),
    ],
)
def test_what_a_rule_hides_is_there_when_it_ends(rule: str, expected: list[object]) -> None:
    query = Query.ask(Name.from_text("db.shop.svc.cluster.local."), 1)

    async def run() -> list[object]:
        server = MemoryServer(STAGE)
        await server.start()

        async def rcode() -> int:
            wire = await server.answer(encode_query(query, 1), "udp", LOCAL, LOCAL)
            assert wire is not None
            return decode_reply(wire, query).rcode

        server.add(f"{rule} named x")
        await asyncio.sleep(1)
        server.hand(Objects().change(Step(apply=DB)))
        found: list[object] = [await rcode()]
        server.remove("x")
        found += [await rcode(), f"hits {server.hits['x']}"]
        await server.stop()
        return found

    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        assert runner.run(run()) == expected
