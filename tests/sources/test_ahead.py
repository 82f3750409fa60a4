"""Requests that are sent before the server is imported."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from hsdns.apiserver.client import ApiClient
from hsdns.apiserver.reflector import Observer, Reflector
from hsdns.apiserver.resource import SERVICES, Scope, accepted
from hsdns.apiserver.transport import read_body
from hsdns.apiserver.watch_event import IS_READ
from hsdns.metrics import Registry
from hsdns.sources.ahead import STREAM, WATCH_SECONDS, Ahead, is_compiled, wanted_of
from hsdns.sources.api_access import ApiAccess, ConnectionOptions, WatchOptions
from tests.support.apiserver.scripted_http import Said, ScriptedServer, chunked
from tests.support.coroutines.event_loops import until
from tests.support.plugins.corefiles import parsed
from tests.support.plugins.runtime import FakeRuntime
from tests.support.tables import values

TABLES = Path(__file__).with_name("tables.txt")

HTTP = ConnectionOptions(endpoint=("http://10.0.0.1:8001",))
TLS = ConnectionOptions(endpoint=("https://10.0.0.1",), tls=("c.pem", "k.pem", "ca.pem"))


def read(text: str) -> dict[ApiAccess, WatchOptions]:
    return wanted_of(parsed(text))


@pytest.mark.parametrize(
    ("text", "connection", "options"),
    [
        pytest.param("kubernetes", ConnectionOptions(), WatchOptions(), id="in a cluster"),
        pytest.param("kubernetes cluster.local {\nendpoint http://10.0.0.1:8001\npods verified\n}", HTTP, WatchOptions(pods=True), id="pods"),
        pytest.param("kubernetes {\nendpoint https://10.0.0.1\ntls c.pem k.pem ca.pem\nnoendpoints\n}", TLS, WatchOptions(endpoints=False), id="tls"),
        pytest.param("kubernetes {\nendpoint http://10.0.0.1:8001\nlabels app in (b, a)\nnamespaces x y\nmulticluster c.local\n}", HTTP, WatchOptions(("x", "y"), labels="app in (a,b)", imports=True), id="selected"),
    ],
)  # fmt: skip
def test_what_a_corefile_has_watched(
    text: str, connection: ConnectionOptions, options: WatchOptions
) -> None:
    assert read(f". {{\n{text}\n}}") == {ApiAccess(connection): options}


@pytest.mark.parametrize("text", values(TABLES, "nothing is sent ahead"))
def test_nothing_is_sent_ahead(text: str) -> None:
    assert read(f". {{\n{text}\n}}") == {}


def test_blocks_over_the_same_server_share_the_requests() -> None:
    block = "kubernetes {{\nendpoint http://10.0.0.1:8001\n{}\n}}"
    text = f"a. {{\n{block.format('noendpoints')}\n}}\nb. {{\n{block.format('pods verified')}\n}}"
    assert read(text) == {ApiAccess(HTTP): WatchOptions(pods=True)}


def test_the_requests_are_those_of_the_reflector() -> None:
    for scope in WatchOptions(("x",), "a=b", "c=d", pods=True, imports=True).scopes:
        reflector = Reflector(scope, lambda events: None, Observer(), random.Random(1))
        request = reflector.next_request()
        query = request.query
        seconds = int(query.pop("timeoutSeconds"))
        assert WATCH_SECONDS[0] <= seconds <= WATCH_SECONDS[1]
        assert query == {**scope.query, **STREAM}
        assert request.accept == accepted(scope.resource, is_compiled=is_compiled())


def run(
    answer: Callable[[str], Said], scenario: Callable[[ScriptedServer, Ahead, ApiAccess], object]
) -> None:
    async def main() -> None:
        async with ScriptedServer(answer) as server:
            access = ApiAccess(ConnectionOptions(endpoint=(server.url,)))
            ahead = Ahead(Registry(), asyncio.get_running_loop().call_soon)
            ahead.send({access: WatchOptions(endpoints=False)})
            await until(lambda: len(server.requests) >= 2, "both requests")
            await scenario(server, ahead, access)  # type: ignore[misc] # a coroutine
            await ahead.close()
            assert ApiAccess.ahead == {}

    asyncio.run(main())


async def first(client: ApiClient, **changed: str) -> bytes:
    query = {**STREAM, "timeoutSeconds": "1", **changed}
    accept = accepted(SERVICES, is_compiled=IS_READ)
    async with client.get(Scope(SERVICES).path, query, accept) as response:
        return await read_body(response, 0, 5.0)


def take(access: ApiAccess) -> ApiClient:
    made = access(FakeRuntime(), lambda level, message: None)
    assert isinstance(made, ApiClient)
    return made


EVENT = json.dumps({"type": "BOOKMARK"}).encode()


@pytest.mark.sockets
def test_a_source_takes_the_client_and_its_responses_over() -> None:
    async def scenario(server: ScriptedServer, ahead: Ahead, access: ApiAccess) -> None:
        client = take(ApiAccess(ConnectionOptions(endpoint=(server.url,))))
        assert take(access) is not client
        assert await first(client) == EVENT
        assert len(server.requests) == 2
        assert await first(client) == EVENT, "the next one is another request"
        assert len(server.requests) == 3
        await client.close()

    run(lambda head: chunked(EVENT, then="hang"), scenario)


@pytest.mark.sockets
def test_another_request_is_sent_again() -> None:
    async def scenario(server: ScriptedServer, ahead: Ahead, access: ApiAccess) -> None:
        client = take(access)
        assert await first(client, labelSelector="a=b") == EVENT
        assert len(server.requests) == 3
        await client.close()

    run(lambda head: chunked(EVENT, then="hang"), scenario)


@pytest.mark.sockets
def test_what_no_source_takes_is_closed() -> None:
    async def scenario(server: ScriptedServer, ahead: Ahead, access: ApiAccess) -> None:
        ahead.drop()
        await asyncio.wait_for(server.ended.wait(), 20)
        assert take(access) not in ApiAccess.ahead.values()

    run(lambda head: chunked(EVENT, then="hang"), scenario)
