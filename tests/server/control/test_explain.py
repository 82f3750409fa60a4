"""/v1/explain of a server that runs."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from hsdns.cluster.objects import Deleted
from hsdns.eager import Wait
from hsdns.explanation.question import read_question
from hsdns.explanation.report import Explanation
from hsdns.http_page import PageRequest
from hsdns.plugins.whoami import Whoami
from hsdns.server.control import explain
from hsdns.server.explaining import make_explainer
from hsdns.server.runtime import Turn
from hsdns.wire.message import Reply
from loadtest.ports import free_port
from tests.server.control.served import BLOCK, MORE, Beside, Served, served
from tests.server.test_runtime import make_runtime
from tests.support.cluster.objects import service as clustered
from tests.support.coroutines.event_loops import run
from tests.support.upstreams.dns_upstream import answer, serve

pytestmark = pytest.mark.sockets
WEB = "web.shop.svc.cluster.local"


async def ask(server: Served, name: str, rrtype: str = "") -> dict[str, Any]:
    found: dict[str, Any]
    (found,) = (await server.get(f"/v1/explain?name={quote(name)}&type={rrtype}")).lines
    return found


async def test_what_the_answer_table_has() -> None:
    """Once it was asked for, until an event; to explain it neither stores nor counts anything."""
    async with served() as server:
        table = server.table
        assert (await ask(server, WEB))["inTable"]["forms"] == []
        assert await server.reloadable.ask(WEB)
        before = table.statistics()
        assert (await ask(server, WEB))["inTable"] == {
            "forms": ["without EDNS"], "isDenial": False, "age": None, "left": None
        }  # fmt: skip
        assert table.statistics() == before
        server.apply(Deleted(clustered("shop/web", "10.96.7.7")))
        assert (await ask(server, WEB))["inTable"]["forms"] == []


LOOKUP = "/v1/explain?name=web.shop&from=shop/db-0&program=musl"


async def test_the_lookup_of_a_pod() -> None:
    """As a program in it asks: with its resolv.conf, by one resolver or all."""
    Path("more.yaml").write_text(MORE)

    async with served(BLOCK.replace("shop.yaml", "shop.yaml more.yaml")) as server:
        (found,) = (await server.get("/v1/explain?name=web&from=shop/db-0")).lines
        assert (found["outcome"], found["records"][0]["rdata"]) == ("resolves", "10.96.7.7")
        assert len(found["asker"]["lookups"]) == 4
        (found,) = (await server.get(f"{LOOKUP}&ndots=1")).lines
        assert found["cause"].startswith(
            'Pod shop/db-0 with musl gets "Try again": web.shop has 1 dot'
        )
        (found,) = (await server.get(f"{LOOKUP}&search=x.test&cluster-dns=192.0.2.9")).lines
        assert found["asker"]["remarks"] == ["the cluster's DNS is 192.0.2.9, as given"]
        assert "search x.test" in found["asker"]["resolvConf"]
        refused = await server.get("/v1/explain?name=web&from=shop/db-1")
        assert (refused.status, refused.lines) == (
            400,
            [{"error": 'the source has no pod shop/db-1; did you mean "shop/db-0"?'}],
        )


async def test_others_run_between_its_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(explain, "LONGEST", -1.0)
    monkeypatch.setattr(explain, "REST", 0.0)

    text = BLOCK.replace("manifests shop.yaml", "synthetic services=9 endpoints=200 headless=1")
    async with served(text) as server:
        door = server.reloadable.server.door
        asked = PageRequest(parameters={"name": "svc-1.ns-0.svc.cluster.local"})
        with Beside() as beside:
            (piece,) = [each async for each in explain.explain(door, asked)]
        assert beside.turns > 200
        assert json.loads(piece)["outcome"] == "resolves"


async def test_an_upstream_is_asked_and_told() -> None:
    async with serve(answer("a.test. 5 IN A 192.0.2.1")) as upstream:
        text = f". {{\nbind 127.0.0.1\ncontrol c.sock\nforward . 127.0.0.1:{upstream.port}\n}}\n"
        async with served(text) as server:
            found = await ask(server, "a.test")
            assert (found["outcome"], found["records"][0]["rdata"]) == ("resolves", "192.0.2.1")
            assert re.fullmatch(
                rf"NOERROR: forward queried 127.0.0.1:{upstream.port}; it took \d+\.\d ms; 1 record",
                found["cause"],
            )


async def test_an_upstream_that_does_not_answer() -> None:
    text = f". {{\nbind 127.0.0.1\ncontrol c.sock\nforward . 127.0.0.1:{free_port()}\n}}\n"
    async with served(text) as server:
        found = await ask(server, "a.test")
        assert found["cause"].startswith("SERVFAIL: forward: 127.0.0.1:")
        assert "refused" in found["cause"]


@pytest.mark.parametrize("as_search", [True, False], ids=["search", "resolv-conf"])
@pytest.mark.parametrize(("count", "status"), [(32, 200), (33, 400)])
async def test_search_lists_are_bounded(as_search: bool, count: int, status: int) -> None:
    """Each domain costs a lookup of several names, and a request could have a thousand of them."""
    domains = [f"d{number}.test" for number in range(count)]
    text = ",".join(domains) if as_search else f"search {' '.join(domains)}\noptions ndots:5\n"
    words = f"search={quote(text)}&ndots=5" if as_search else f"resolv-conf={quote(text)}"

    async with served() as server:
        found = await server.get(f"/v1/explain?name=web.shop&{words}")
        assert found.status == status
        if status == 400:
            assert found.lines == [
                {
                    "error": "the search list has 33 domains; leave some out: at most 32 are explained, "
                    "as many as Kubernetes allows a Pod (glibc before 2.26 reads 6)"
                }
            ]


def explained(text: str) -> Explanation:
    async def case() -> Explanation:
        runtime = make_runtime(text)
        assert runtime.configuration is not None
        pause = Turn(runtime.clock).end_if_long
        explainer = make_explainer(runtime, asks=True, pause=pause)
        return await explainer.explain(*read_question("a.test"), 0.0)

    return run(case())


def test_a_query_that_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    async def handle(self: object, request: object, following: object) -> Reply:
        wait: Wait[Reply] = Wait()
        asyncio.get_running_loop().call_soon(wait.fail, asyncio.CancelledError())
        return await wait

    monkeypatch.setattr(Whoami, "handle", handle)
    assert explained(".:5301 {\nwhoami\n}\n").rcode == "SERVFAIL"
