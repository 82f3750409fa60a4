"""/v1/queries, of a whole server."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from hsdns.fastpath.hit_records import SAMPLE
from hsdns.server.control.queries import QueryFilter, namespace_of
from hsdns.server.query_tap import QueryTap
from hsdns.wire.name import Name
from tests.server.control.served import BLOCK, Served, served

pytestmark = pytest.mark.sockets
WEB, GONE = "web.shop.svc.cluster.local", "gone.test.svc.cluster.local"
TEXT = BLOCK.replace("cluster.local in-addr.arpa {", "cluster.local:PORT in-addr.arpa:PORT {")


async def ask_all(server: Served) -> None:
    """A name over both protocols, twice, so that the table answers then; then another name."""
    for name in (WEB, WEB, GONE):
        await server.reloadable.ask(name)
        await server.reloadable.ask_tcp(name)


def stream(server: Served) -> Any:
    return server.client.get("http://localhost/v1/queries")


def keep(server: Served) -> None:
    """Have the server keep queries from now on."""
    tap = server.reloadable.server.queries
    tap.keeps = True
    with tap.looking():
        pass


async def test_the_last_queries() -> None:
    async with served(TEXT) as server:
        keep(server)
        await ask_all(server)
        found = (await server.get("/v1/queries?last=1000")).lines
        members = ("transport", "name", "rcode", "answered_by")
        assert [tuple(each[member] for member in members) for each in found] == [
            ("udp", f"{WEB}.", "NOERROR", "chain"),
            ("tcp", f"{WEB}.", "NOERROR", "table"),
            ("udp", f"{WEB}.", "NOERROR", "table"),
            ("tcp", f"{WEB}.", "NOERROR", "table"),
            ("udp", f"{GONE}.", "NXDOMAIN", "chain"),
            ("tcp", f"{GONE}.", "NXDOMAIN", "table"),
        ]
        port = server.reloadable.port
        for each in found:
            assert each["server"] == f"dns://127.0.0.1:{port}"
            assert (each["client"], each["type"], each["truncated"]) == ("127.0.0.1", "A", False)  # fmt: skip
            assert each["duration_ms"] >= 0
            assert each["size"] > 50
        assert (await server.get("/v1/queries?last=2")).lines == found[-2:]
        for wanted in ("namespace=shop", f"name={WEB}"):
            assert (await server.get(f"/v1/queries?last=1&{wanted}")).lines == found[3:4]


async def test_a_share_is_told() -> None:
    async with served(TEXT) as server, stream(server) as response:
        await response.content.readline()
        tap: QueryTap = server.reloadable.server.queries
        for _ in range(4 * SAMPLE):  # in one turn of the loop
            tap.tap.push(b"\0" * 17, b"\2\0" + bytes(14), source=0, flags=0, size=17, seconds=0.0, at=tap._clock(), is_tcp=False)  # fmt: skip
        line = await asyncio.wait_for(response.content.readline(), 20)
        found = json.loads(line)
        assert found.keys() == {"time", "at", "share"}
        assert found["share"] == 0.25


ZONES = tuple(map(Name.from_text, ("cluster.local.", "b.cluster.local.")))


SHOP = QueryFilter(ZONES, b"shop")


@pytest.mark.parametrize(
    ("name", "namespace"),
    [
        ("web.shop.svc.cluster.local", b"shop"),
        ("web.SHOP.svc.cluster.local", b"shop"),
        ("_http._tcp.web.shop.svc.cluster.local", b"shop"),
        ("shop.svc.cluster.local", b"shop"),
        ("10-0-0-1.shop.pod.cluster.local", b"shop"),
        ("www.example.org.shop.svc.cluster.local", b"shop"),
        ("web.shop.svc.b.cluster.local", b"shop"),
        ("svc.cluster.local", None),
        ("web.shop.cluster.local", None),
        ("web.shop.svc.example.org", None),
    ],
)
def test_namespaces(name: str, namespace: bytes | None) -> None:
    assert namespace_of(Name.from_text(name), ZONES) == namespace
    assert SHOP.has(Name.from_text(name)) == (namespace is not None)
