"""/v1/top, of a whole server."""

from __future__ import annotations

import asyncio
import json
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from hsdns.server.control import top
from tests.server.control.served import BLOCK, Served, served
from tests.support.cluster.objects import service, upserts

pytestmark = pytest.mark.sockets
WEB, GONE = "web.shop.svc.cluster.local", "gone.shop.svc.cluster.local"
TEXT = BLOCK.replace("cluster.local in-addr.arpa {", "cluster.local:PORT in-addr.arpa:PORT {")


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(top, "INTERVAL", 0.02)
    monkeypatch.setattr(top, "POLL", 0.001)


async def pictures(
    server: Served, page: str, *names: str, until: tuple[str, ...]
) -> dict[str, Any]:
    """Ask for names while a reader looks, until lists of the picture have something."""
    async with server.client.get(f"http://localhost{page}") as response:
        assert (response.status, response.content_type) == (200, "application/jsonl")
        await response.content.readline()  # the reader is there
        for name in names:
            await server.reloadable.ask(name)
            await server.reloadable.ask_tcp(name)
        server.apply(*upserts(service("shop/db", "10.96.7.8")))
        while True:
            line = await asyncio.wait_for(response.content.readline(), 20)
            found: dict[str, Any] = json.loads(line)
            if all(found[each] for each in until):
                return found


async def test_a_stream_of_pictures() -> None:

    async with served(TEXT) as server:
        found = await pictures(server, "/v1/top", WEB, GONE, until=("failing", "changes"))
        (failing,) = found["failing"]
        assert failing["per_second"] > 0
        assert failing["last"] <= found["time"]
        kept = ("name", "type", "rcode", "cause")
        assert [failing[each] for each in kept] == [
            f"{GONE}.", "A", "NXDOMAIN", "there is no Service shop/gone",
        ]  # fmt: skip
        names = {each["name"] for each in found["slowest"]}
        assert names == {f"{WEB}.", f"{GONE}."}
        assert found["changes"][0]["record"] == "10.96.7.8"
        assert (found["search_waste"], found["upstreams"]) == ([], [])


@pytest.mark.parametrize(
    ("page", "names"),
    [
        ("/v1/top?namespace=shop", [f"{GONE}."]),
        ("/v1/top?namespace=SHOP", [f"{GONE}."]),
        ("/v1/top?name=x.test.svc.cluster.local", ["x.test.svc.cluster.local."]),
        ("/v1/top?name=test.svc.cluster.local.&namespace=test", ["x.test.svc.cluster.local."]),
    ],
)
async def test_filters(page: str, names: list[str]) -> None:

    async with served(TEXT) as server:
        found = await pictures(server, page, GONE, "x.test.svc.cluster.local", until=("failing",))
        assert [each["name"] for each in found["failing"]] == names


async def test_once() -> None:

    async with served(TEXT) as server:
        (found,) = (await server.get("/v1/top?once=1")).lines
        assert found["rates"]["queries_per_second"] == 0
        assert not server.reloadable.server._queries.is_open, "the reader has gone"


async def test_readers_of_a_selection_share_its_pictures() -> None:
    """`time` and `uptime_seconds` are those of the making: equal lines are one picture."""
    async with served(TEXT) as server, AsyncExitStack() as stack:
        read = []
        for page in ("/v1/top", "/v1/top", "/v1/top?namespace=shop"):
            asked = server.client.get(f"http://localhost{page}")
            read.append((await stack.enter_async_context(asked)).content.readline)
        first, second, other = read
        shared, own = await second(), await other()
        seen = [await first()]
        while seen[-1] < max(shared, own):
            seen.append(await first())
        assert shared in seen
        assert own not in seen


@pytest.mark.parametrize(
    ("page", "error"),
    [
        ("/v1/top?once=2", 'once is 1 for a single picture, or 0, not "2"'),
        ("/v1/top?namespace=a.b", 'namespace is one label, such as default, not "a.b"'),
        ("/v1/top?namespace=", 'namespace is one label, such as default, not ""'),
        ("/v1/top?name=a..b", 'name: "a..b" is not a domain name: label b\'\' has 0 octets, allowed are 1 to 63'),
        ("/v1/top?zone=x", "/v1/top has no parameter zone; it has once, namespace, name"),
    ],
)  # fmt: skip
async def test_refusals(page: str, error: str) -> None:

    async with served(TEXT) as server:
        found = await server.get(page)
        assert (found.status, found.lines) == (400, [{"error": error}])
