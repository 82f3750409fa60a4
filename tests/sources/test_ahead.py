"""Requests that are sent before the server is imported."""

from __future__ import annotations

import asyncio
import json
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from hsdns.apiserver.client import ApiClient
from hsdns.apiserver.reflector import Observer, Reflector
from hsdns.apiserver.resource import SERVICES, Scope, accepted
from hsdns.apiserver.transport import read_body
from hsdns.apiserver.watch_event import IS_READ
from hsdns.cluster.source import Lead, NamedSource
from hsdns.corefile.tree import CorefileError, Position, Token
from hsdns.metrics import Registry
from hsdns.sources import source_from
from hsdns.sources.ahead import STREAM, WATCH_SECONDS, Ahead, is_compiled, wanted_of
from hsdns.sources.api_access import ApiAccess, ConnectionOptions, WatchOptions
from hsdns.sources.push import PushSource
from hsdns.sources.replay import Replay
from hsdns.sources.synthetic import Shape, Synthetic
from tests.support.apiserver.scripted_http import Said, ScriptedServer, chunked
from tests.support.cluster.objects import deletes, service, upserts
from tests.support.coroutines.event_loops import until
from tests.support.plugins.corefiles import parsed
from tests.support.plugins.runtime import FakeRuntime
from tests.support.tables import columns, values

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


# Which API server a block uses.

IN_CLUSTER = {"KUBERNETES_SERVICE_HOST": "10.96.0.1", "KUBERNETES_SERVICE_PORT": "443"}


@pytest.mark.parametrize(
    ("words", "in_cluster", "server"),
    [
        pytest.param(ConnectionOptions(), True, "https://10.96.0.1:443", id="nothing said: the pod's own cluster"),
        pytest.param(ConnectionOptions(endpoint=("http://192.0.2.1:8080",)), False, "http://192.0.2.1:8080", id="endpoint"),
        pytest.param(ConnectionOptions(endpoint=("192.0.2.1",), tls=("c", "k", "a")), False, "https://192.0.2.1", id="endpoint with tls"),
        pytest.param(ConnectionOptions(kubeconfig=("conf",)), False, "the API server of kubeconfig conf", id="kubeconfig"),
        pytest.param(ConnectionOptions(("conf", "lab"), ("192.0.2.1",)), False, "the API server of kubeconfig conf", id="kubeconfig counts more"),
    ],
)  # fmt: skip
async def test_which_server_the_options_select(
    words: ConnectionOptions, in_cluster: bool, server: str, tmp_path: Path
) -> None:
    access = ApiAccess(words, IN_CLUSTER, str(tmp_path))
    assert access.is_in_cluster is in_cluster

    transport = access(FakeRuntime(), lambda level, message: None)
    assert isinstance(transport, ApiClient)
    assert transport.server == server
    await transport.close()


# Lookup of sources by name.


def set_up(line: str) -> NamedSource:
    """The source that a line names, whose first word is in column 1."""
    tokens, column = [], 1
    for word in line.split(" "):
        tokens.append(Token(word, Position("Corefile", 3, column)))
        column += len(word) + 1
    return source_from(tokens[0], tokens[1:], ".")


@pytest.mark.parametrize(
    ("line", "sentence"), columns(Path(__file__).with_name("setup_errors.txt"), "sources")
)
def test_refused(line: str, sentence: str) -> None:
    with pytest.raises(CorefileError) as caught:
        set_up(line)
    assert str(caught.value) == sentence


def test_settings() -> None:
    synthetic = set_up(
        "synthetic services=5 endpoints=2 headless=0.5 dual_stack=1 changes=1.5 seed=7"
    )
    assert isinstance(synthetic, Synthetic)
    assert (synthetic.shape, synthetic.changes) == (Shape(5, 2, 0.5, 1.0, 7), 1.5)
    replay = set_up("replay /a/../b.rec speed=2 at=1m paused=true")
    assert isinstance(replay, Replay)
    assert (replay.path, replay.speed, replay.at, replay.is_paused) == ("/b.rec", 2.0, 60.0, True)


def test_sources_are_imported_when_they_are_used() -> None:
    code = "import sys, hsdns.sources; print('yaml' in sys.modules or 'watchfiles' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=20
    )
    assert done.stdout == "False\n"


def test_the_source_finds_what_is_there_now() -> None:
    source = PushSource(upserts(service("shop/web", "10.96.0.1"), service("shop/db", "10.96.0.2")))
    source.load(lambda events: None, lambda level, message: None)
    lead = Lead(services=((b"shop", b"web"), (b"shop", b"db")))
    source.push([*upserts(service("shop/web", "10.96.0.3")), *deletes(service("shop/db"))])
    (found,) = asyncio.run(source.read(lead)).objects
    assert found == service("shop/web", "10.96.0.3")
