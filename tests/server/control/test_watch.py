"""/v1/watch."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest

from hsdns import __version__
from hsdns.cluster.objects import Synced
from hsdns.server.control import cluster as change_follower
from hsdns.server.control import cluster as watch
from tests.server.control.served import BLOCK, UNREAD, Beside, Served, served
from tests.server.control.test_routes import TWO
from tests.support.cluster.objects import deletes, endpoint_slice, namespace, service, upserts
from tests.support.coroutines.event_loops import until

pytestmark = pytest.mark.sockets
DB = service("shop/db", "10.96.7.8")


class Reader:
    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self.content = response.content

    async def line(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(await asyncio.wait_for(self.content.readline(), 20))
        if "time" in found:
            assert found.pop("time").endswith("+00:00")
            assert 0 <= found.pop("at") < 100
        return found

    async def state(self) -> list[str]:
        """The objects of a state, as kind and name; after it the number of objects."""
        names = []
        while (line := await self.line())["entry"] == "object":
            names.append(f"{line['object']['kind']} {line['object']['metadata']['name']}")
        assert line == {"entry": "state", "objects": len(names), "serves": True}
        return names


@asynccontextmanager
async def reading(server: Served, parameters: str = "") -> AsyncIterator[Reader]:
    async with server.client.get(f"http://localhost/v1/watch{parameters}") as response:
        assert (response.status, response.content_type) == (200, "application/jsonl")
        yield Reader(response)


async def test_the_objects_and_then_each_event() -> None:
    text = BLOCK.replace("source", "pods insecure\nttl 7\nlabels app!=x\nsource")

    async with served(text) as server, reading(server) as reader:
        header = await reader.line()
        assert header.pop("began").endswith("+00:00")
        assert header == {
            "entry": "header", "format": "hsdns recording", "version": 1, "server": __version__,
            "source": "manifests shop.yaml", "zones": ["cluster.local.", "in-addr.arpa."],
            "kubernetes": [["pods", "insecure"], ["ttl", "7"]], "anonymised": False,
        }  # fmt: skip
        assert await reader.state() == ["Namespace shop", "Service web"]
        server.apply(*upserts(DB, endpoint_slice("shop/db-1", "db", "10.0.0.1")))
        server.apply(*upserts(service("shop/db", "10.96.7.9", version="2")), Synced())
        server.apply(*deletes(DB, DB))  # the second one tells nothing new
        server.apply(*deletes(endpoint_slice("shop/db-1", "db", "10.0.0.1")))
        found = [await reader.line() for _ in range(6)]
        shown = [
            (each["type"], each.get("object", {}).get("metadata", {}).get("name")) for each in found
        ]
        assert shown == [
            ("ADDED", "db"), ("ADDED", "db-1"), ("MODIFIED", "db"), ("SYNCED", None),
            ("DELETED", "db"), ("DELETED", "db-1"),
        ]  # fmt: skip
        assert found[1]["object"]["endpoints"] == [{"addresses": ["10.0.0.1"]}]  # fmt: skip


async def test_a_reader_that_is_too_slow_gets_the_state_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(watch, "MOST", 1)

    async with served() as server, reading(server) as reader:
        await reader.line()
        await reader.state()
        server.apply(*upserts(DB))
        for name in ("a", "b"):  # in the same turn of the loop
            server.apply(*upserts(service(f"shop/{name}", "10.96.7.8")))
        assert (await reader.line())["object"]["metadata"]["name"] == "db"
        assert await reader.line() == {"entry": "gap", "events": 2}
        assert await reader.state() == ["Namespace shop", "Service web", "Service db", "Service a", "Service b"]  # fmt: skip
        server.apply(*deletes(DB))
        assert (await reader.line())["type"] == "DELETED"


async def test_a_reload_goes_on() -> None:
    """With the same cluster, if only something else has changed; with the state again, if it is read again."""
    async with served() as server, reading(server) as reader:
        await reader.line()
        await reader.state()
        server.reloadable.write(BLOCK.replace("control", "errors\ncontrol"))
        assert await server.reloadable.server.reload()
        server.apply(*upserts(DB))
        assert (await reader.line())["type"] == "ADDED"
        server.reloadable.write(BLOCK.replace("kubernetes {", "kubernetes cluster.local in-addr.arpa {"))  # fmt: skip
        assert await server.reloadable.server.reload()
        assert await reader.state() == ["Namespace shop", "Service web"]
        server.apply(*upserts(DB))
        assert (await reader.line())["type"] == "ADDED"


async def test_another_block_ends_it() -> None:
    async with served() as server, reading(server) as reader:
        await reader.line()
        await reader.state()
        server.reloadable.write(BLOCK.replace("source", "ttl 7\nsource"))
        assert await server.reloadable.server.reload()
        assert await reader.line() == {"entry": "end", "reason": watch.CHANGED}
        assert await reader.content.readline() == b""


async def test_queries_are_answered_between_the_pieces() -> None:
    text = BLOCK.replace("manifests shop.yaml", "synthetic services=3000 endpoints=10")

    async with served(text) as server, reading(server) as reader:
        with Beside() as beside:
            await reader.line()
            assert len(await reader.state()) > 6000
        assert beside.turns > 20


async def test_a_request_for_the_header_alone_leaves_nothing() -> None:
    async with served() as server:
        async with server.client.head("http://localhost/v1/watch") as response:
            assert response.status == 200

        def is_forgotten() -> bool:
            server.apply(*upserts(DB))
            return not server.block.store._followers

        await until(is_forgotten, "it is forgotten")


async def test_a_zone_chooses_a_block() -> None:
    async with served(TWO) as server, reading(server, "?zone=B.test") as reader:
        assert (await reader.line())["zones"] == ["b.test."]
        assert "Service svc-0" in await reader.state()


WEB, DB = service("shop/web", "10.96.7.7"), service("shop/db", "10.96.7.8")


# /v1/changes.

DATABASE = service("shop/db", "10.96.7.8", ports=["sql/TCP/5432"])
ADDED = [
    {"change": "added", "name": "db.shop.svc.cluster.local.", "record": "10.96.7.8", "zone": "cluster.local."},
    {"change": "added", "name": "_sql._tcp.db.shop.svc.cluster.local.", "record": "port 5432", "zone": "cluster.local."},
]  # fmt: skip
ZONES = {"zones": ["cluster.local.", "in-addr.arpa."]}


class ChangesReader:
    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self.content = response.content

    async def line(self) -> dict[str, Any]:
        """The next line, without its time."""
        found: dict[str, Any] = json.loads(await asyncio.wait_for(self.content.readline(), 20))
        assert found.pop("time").endswith("+00:00")
        return found


@asynccontextmanager
async def reading_changes(server: Served) -> AsyncIterator[ChangesReader]:
    async with server.client.get("http://localhost/v1/changes") as response:
        assert (response.status, response.content_type) == (200, "application/jsonl")
        yield ChangesReader(response)


async def test_what_changes_is_told_as_it_happens() -> None:
    async with served() as server, reading_changes(server) as reader:
        assert await reader.line() == ZONES
        server.apply(*upserts(DATABASE))
        assert [await reader.line(), await reader.line()] == ADDED
        server.apply(*deletes(DATABASE))
        gone = [await reader.line(), await reader.line()]
        assert gone == [{**line, "change": "removed"} for line in ADDED]


async def test_the_stream_goes_on_at_a_reload() -> None:
    """Also where the block has another configuration, and a cluster that is read again."""
    async with served() as server, reading_changes(server) as reader:
        assert await reader.line() == ZONES
        server.reloadable.write(BLOCK.replace("source", "ttl 7\nsource"))
        assert await server.reloadable.server.reload()
        assert await reader.line() == ZONES
        server.apply(*upserts(namespace("shop"), DATABASE))
        assert [await reader.line(), await reader.line()] == ADDED


async def test_names_of_a_cluster_that_is_read_are_no_changes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Those that come after it has been read are."""
    known: list[change_follower._Followed] = []
    follow = change_follower._follow

    def note(*of: Any) -> Any:
        found = follow(*of)
        known.extend(found.values())
        return found

    def _seen() -> list[int]:
        return [each.seen for each in known if each.changes is not None]

    monkeypatch.setattr(change_follower, "_follow", note)
    async with served(UNREAD) as server, reading_changes(server) as reader:
        assert await reader.line() == ZONES
        server.apply(*upserts(namespace("shop"), service("shop/web", "10.96.7.7")))
        server.block.store.synced = True
        seen = server.block.store.changes
        await until(lambda: seen in _seen(), "the state is read")
        server.apply(*upserts(DATABASE))
        assert [await reader.line(), await reader.line()] == ADDED
