"""/v1/changes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest

from hsdns.server.control import cluster as change_follower
from tests.server.control.served import BLOCK, UNREAD, Served, served
from tests.support.cluster.objects import deletes, namespace, service, upserts
from tests.support.coroutines.event_loops import until

pytestmark = pytest.mark.sockets
DB = service("shop/db", "10.96.7.8", ports=["sql/TCP/5432"])
ADDED = [
    {"change": "added", "name": "db.shop.svc.cluster.local.", "record": "10.96.7.8", "zone": "cluster.local."},
    {"change": "added", "name": "_sql._tcp.db.shop.svc.cluster.local.", "record": "port 5432", "zone": "cluster.local."},
]  # fmt: skip
ZONES = {"zones": ["cluster.local.", "in-addr.arpa."]}


class Reader:
    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self.content = response.content

    async def line(self) -> dict[str, Any]:
        """The next line, without its time."""
        found: dict[str, Any] = json.loads(await asyncio.wait_for(self.content.readline(), 20))
        assert found.pop("time").endswith("+00:00")
        return found


@asynccontextmanager
async def reading(server: Served) -> AsyncIterator[Reader]:
    async with server.client.get("http://localhost/v1/changes") as response:
        assert (response.status, response.content_type) == (200, "application/jsonl")
        yield Reader(response)


async def test_what_changes_is_told_as_it_happens() -> None:
    async with served() as server, reading(server) as reader:
        assert await reader.line() == ZONES
        server.apply(*upserts(DB))
        assert [await reader.line(), await reader.line()] == ADDED
        server.apply(*deletes(DB))
        gone = [await reader.line(), await reader.line()]
        assert gone == [{**line, "change": "removed"} for line in ADDED]


async def test_the_stream_goes_on_at_a_reload() -> None:
    """Also where the block has another configuration, and a cluster that is read again."""
    async with served() as server, reading(server) as reader:
        assert await reader.line() == ZONES
        server.reloadable.write(BLOCK.replace("source", "ttl 7\nsource"))
        assert await server.reloadable.server.reload()
        assert await reader.line() == ZONES
        server.apply(*upserts(namespace("shop"), DB))
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
    async with served(UNREAD) as server, reading(server) as reader:
        assert await reader.line() == ZONES
        server.apply(*upserts(namespace("shop"), service("shop/web", "10.96.7.7")))
        server.block.store.synced = True
        seen = server.block.store.changes
        await until(lambda: seen in _seen(), "the state is read")
        server.apply(*upserts(DB))
        assert [await reader.line(), await reader.line()] == ADDED
