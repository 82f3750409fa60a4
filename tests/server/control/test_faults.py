"""/v1/faults and /v1/faults/hits."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.server.control.served import BLOCK, Answer, Served, served
from tests.server.control.test_queries import GONE, TEXT, WEB, ask_all, keep
from tests.support.coroutines.event_loops import until
from tests.support.tables import columns

TABLES = Path(__file__).with_name("tables.txt")

pytestmark = pytest.mark.sockets


async def add(server: Served, rule: str) -> Answer:
    return await server.get("/v1/faults", "POST", json.dumps({"rule": rule}).encode())


def short(answer: Answer) -> list[tuple[Any, ...]]:
    return [
        tuple(each[name] for name in ("name", "state", "hits", "place")) for each in answer.lines
    ]


async def test_a_rule_comes_bites_and_goes() -> None:
    async with served(faults=True) as server:
        assert (await server.get("/v1/faults")).lines == []
        added = await add(server, f"rcode REFUSED name {WEB} seed 7 for 5m named x")
        (rule,) = added.lines
        assert added.status == 200
        assert rule.pop("seconds_left") == pytest.approx(300, abs=5)
        assert rule.pop("digest")
        assert rule == {
            "name": "x",
            "rule": f"rcode REFUSED name {WEB}. seed 7 for 5m0s named x",
            "state": "active",
            "hits": 0,
            "queries": 0,
            "counts": "queries",
            "seed": 7,
            "place": "control API",
        }
        assert (await server.reloadable.ask(WEB)).startswith("1 REFUSED")
        await add(server, "delay 1ms type SRV named y")
        found = await server.get("/v1/faults")
        assert short(found) == [("x", "active", 1, "control API"), ("y", "active", 0, "control API")]  # fmt: skip
        assert short(await server.get("/v1/faults?name=y")) == [("y", "active", 0, "control API")]  # fmt: skip
        removed = await server.get("/v1/faults?name=x", "DELETE")
        assert short(removed) == [("x", "removed", 1, "control API")]
        assert (await server.reloadable.ask(WEB)).startswith("1 NOERROR")
        assert short(await server.get("/v1/faults", "DELETE")) == [("y", "removed", 0, "control API")]  # fmt: skip
        assert {each["state"] for each in (await server.get("/v1/faults")).lines} == {"removed"}


async def test_rules_of_the_corefile_are_listed() -> None:
    text = BLOCK.replace("control", "fault rcode REFUSED type A named here\ncontrol")
    async with served(text, faults=True) as server:
        assert (await server.reloadable.ask(WEB)).startswith("1 REFUSED")
        assert short(await server.get("/v1/faults")) == [("here", "active", 1, "Corefile:3:5")]  # fmt: skip
        found = await server.get("/v1/faults?name=here", "DELETE")
        assert (found.status, found.lines[0]["error"]) == (
            400,
            'the rule "here" is written at Corefile:3:5; remove it there',
        )


async def test_the_door_stays_while_the_process_is_dead() -> None:
    async with (
        served(faults=True) as server,
        server.client.get("http://localhost/v1/faults/hits") as stream,
    ):
        await add(server, "die 1h named x")
        hit = json.loads(await stream.content.readline())
        assert {name: hit[name] for name in hit if name != "time"} == {
            "rule": "x", "hit": 1, "query": 1, "action": "die 1h0m0s",
        }  # fmt: skip
        assert short(await server.get("/v1/faults")) == [("x", "active", 1, "control API")]
        refused = await add(server, "drop")
        assert refused.status == 503
        removed = await server.get("/v1/faults?name=x", "DELETE")
        assert short(removed) == [("x", "removed", 1, "control API")]
        assert removed.lines[0]["counts"] == "restarts"
        await until(lambda: server.reloadable.server.is_serving, "back")
        assert (await server.reloadable.ask(WEB)).startswith("1 NOERROR")
        await add(server, "delay 0s times 1 named y")
        await server.reloadable.ask(WEB)
        assert json.loads(await stream.content.readline())["rule"] == "y"


@pytest.mark.parametrize(
    ("method", "page"),
    [("GET", "/v1/faults"), ("POST", "/v1/faults"), ("DELETE", "/v1/faults"), ("GET", "/v1/faults/hits")],
)  # fmt: skip
async def test_a_server_that_was_not_started_for_it(method: str, page: str) -> None:
    async with served() as server:
        found = await server.get(page, method, b'{"rule": "drop"}')
        assert (found.status, found.lines) == (
            403,
            [{"error": "this server was not started for faults; start it with --faults, which hsdns serve does by itself"}],
        )  # fmt: skip
        assert (await server.reloadable.ask(WEB)).startswith("1 NOERROR")


async def test_an_explanation_names_the_rules_and_is_no_hit() -> None:
    async with served(faults=True) as server:
        await add(server, f"drop name {WEB} share 0.5 named x")
        (found,) = (await server.get(f"/v1/explain?name={WEB}")).lines
        assert [(each["plugin"], each["did"]) for each in found["plugins"]] == [
            ("fault", f'rule "x" may hit this query: drop name {WEB}. share 0.5'),
            ("kubernetes", "answered NOERROR with 1 record"),
        ]
        assert [(each["hits"], each["queries"]) for each in (await server.get("/v1/faults")).lines] == [(0, 0)]  # fmt: skip


async def attempt(server: Served, rule: str, count: object = 1000) -> Answer:
    body = json.dumps({"rule": rule}).encode()
    return await server.get(f"/v1/faults?dry-run={count}", "POST", body)


def seen_query(query: dict[str, Any]) -> tuple[str, ...]:
    return tuple(query[name] for name in ("name", "type", "transport", "rcode", "answered_by"))


@pytest.mark.parametrize(("rule", "hits"), columns(TABLES, "rules of the last queries"))
async def test_last_queries(rule: str, hits: str) -> None:
    """Three names over UDP and TCP each; the answer table has what was asked before."""
    async with served(TEXT, faults=True) as server:
        keep(server)
        await ask_all(server)
        every = (await server.get("/v1/queries?last=1000")).lines
        first, *lines = (await attempt(server, rule)).lines
        expected = [
            (seen_query(each), int(hit))
            for each, hit in zip(every, hits, strict=True)
            if hit != "-"
        ]
        assert [(seen_query(each), each["hit"]) for each in lines] == expected
        assert first["rule"].startswith(rule)
        assert (first["queries"], first["hits"], first["may"]) == (6, len(lines), 0)
        assert (await server.get("/v1/faults")).lines == []
        assert (await server.reloadable.ask(WEB)).startswith("1 NOERROR")


async def test_some_of_the_last() -> None:
    async with served(TEXT, faults=True) as server:
        keep(server)
        first, *lines = (await attempt(server, "drop", 2)).lines
        assert (first["queries"], first["seconds"], lines) == (0, 0.0, [])
        await ask_all(server)
        first, *lines = (await attempt(server, "delay normal 1s 1s", 2)).lines
        assert [each["name"] for each in lines] == [f"{GONE}."] * 2
        assert all(each["drawn"] >= 0 for each in lines)
