"""POST /v1/faults?dry-run=COUNT, of a whole server."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from hsdns.server.control.faults import NOT_KEPT
from tests.server.control.served import Answer, Served, served
from tests.server.control.test_queries import GONE, TEXT, WEB, ask_all, keep

pytestmark = pytest.mark.sockets


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


async def attempt(server: Served, rule: str, count: object = 1000) -> Answer:
    body = json.dumps({"rule": rule}).encode()
    return await server.get(f"/v1/faults?dry-run={count}", "POST", body)


def short(query: dict[str, Any]) -> tuple[str, ...]:
    return tuple(query[name] for name in ("name", "type", "transport", "rcode", "answered_by"))


@pytest.mark.parametrize(
    ("rule", "hits"),
    [
        (f"drop name {WEB}. seed 1", "1234--"),
        ("drop transport udp seed 1", "1-2-3-"),
        ("drop flow first seed 1", "123456"),
        ("nxdomain asked 127.0.0.1 nth 2 seed 1", "-1---2"),
        ("drop type TXT seed 1", "------"),
        ("refuse seed 1", "-1-2-3"),
        ("queue-full seed 1", "1---2-"),
    ],
)
async def test_last_queries(rule: str, hits: str) -> None:
    """Three names over UDP and TCP each; the answer table has what was asked before."""
    async with served(TEXT, faults=True) as server:
        keep(server)
        await ask_all(server)
        every = (await server.get("/v1/queries?last=1000")).lines
        first, *lines = (await attempt(server, rule)).lines
        expected = [
            (short(each), int(hit)) for each, hit in zip(every, hits, strict=True) if hit != "-"
        ]
        assert [(short(each), each["hit"]) for each in lines] == expected
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


@pytest.mark.parametrize(
    ("method", "page", "rule", "status", "error"),
    [
        ("POST", "dry-run=0", "drop", 400, 'dry-run is a number of queries from 1 to 1000, not "0"'),
        ("POST", "dry-run=5", "dorp", 400, '"dorp" is no action of a fault; did you mean "drop"?'),
        ("POST", "dry-run=5&name=x", "drop", 400, '/v1/faults takes name with DELETE and GET; a rule that is added has "named"'),
        ("GET", "dry-run=5", "", 400, "/v1/faults takes dry-run with POST"),
        ("DELETE", "dry-run=5", "", 400, "/v1/faults takes dry-run with POST"),
    ],
)  # fmt: skip
async def test_refused(method: str, page: str, rule: str, status: int, error: str) -> None:

    async with served(TEXT, faults=True) as server:
        keep(server)
        body = json.dumps({"rule": rule}).encode() if rule else b""
        found = await server.get(f"/v1/faults?{page}", method, body)
        assert (found.status, found.lines) == (status, [{"error": error}])


async def test_a_server_that_keeps_no_queries() -> None:

    async with served(TEXT, faults=True) as server:
        found = await attempt(server, "drop")
        assert (found.status, found.lines) == (404, [{"error": NOT_KEPT}])
