"""Connections to a server: which are opened, and which serve again."""

import asyncio
import socket
import ssl
from collections.abc import Awaitable, Callable
from urllib.parse import urlsplit

import pytest

from hsdns.apiserver import connections
from hsdns.apiserver.access import Access
from hsdns.apiserver.connections import (
    BUFFER_LEN,
    Connections,
    ConnectTimeout,
    HttpConnection,
    ProxyRefused,
    ProxyUnreachable,
    Route,
    head_of,
)
from tests.support.apiserver.scripted_http import Said, ScriptedServer, said

pytestmark = pytest.mark.sockets

GET = head_of("GET /", [("Host", "x")])


def run(
    scenario: Callable[[ScriptedServer, Connections], Awaitable[None]],
    answer: Callable[[str], Said] = lambda head: said(),
) -> None:
    async def main() -> None:
        async with ScriptedServer(answer) as server:
            found = Connections()
            await scenario(server, found)
            found.close()

    asyncio.run(main())


async def ask(found: Connections, route: Route) -> HttpConnection:
    """A response that is read to its end, and whose connection is kept."""
    connection = await found.ask(route, GET, BUFFER_LEN)
    while await connection.read():
        pass
    found.release(route, connection)
    return connection


def test_idle_connections_are_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "IDLE_TIMEOUT", 0.01)

    async def scenario(server: ScriptedServer, found: Connections) -> None:
        route = Route.of(Access(server.url), None)
        await ask(found, route)
        await asyncio.wait_for(server.ended.wait(), 30)
        await ask(found, route)
        assert server.connections == 2

    run(scenario)


@pytest.mark.parametrize(
    ("server", "proxy", "target", "headers"),
    [
        pytest.param("http://host:80/a", "", "", [], id="none"),
        pytest.param("https://host/a", "http://me:p%40ss@proxy:3128", "", [], id="tunnel"),
        pytest.param("http://host:80/a", "http://me:p%40ss@proxy:3128", "http://host:80", [("Proxy-Authorization", "Basic bWU6cEBzcw==")], id="plain"),
    ],
)  # fmt: skip
def test_requests_on_a_route(
    server: str, proxy: str, target: str, headers: list[tuple[str, str]]
) -> None:
    route = Route.of(Access(server, proxy=proxy), None)
    assert (route.target, route.headers) == (target, headers)


def test_a_proxy_gets_requests_for_http() -> None:
    async def scenario(server: ScriptedServer, found: Connections) -> None:
        route = Route.of(Access("http://192.0.2.1", proxy=server.url), None)
        await found.ask(route, head_of(f"GET {route.target}/x", []), BUFFER_LEN)
        assert server.requests == ["GET http://192.0.2.1/x HTTP/1.1\r\n\r\n"]

    run(scenario)


def test_faults_of_a_proxy() -> None:
    async def scenario(server: ScriptedServer, found: Connections) -> None:
        context = ssl.create_default_context()
        access = Access("https://[2001:db8::1]:6443", proxy=server.url)
        with pytest.raises(ProxyRefused) as refused:
            await found.reach(Route.of(access, context))
        assert (refused.value.status, refused.value.reason) == (403, "Not here")
        assert server.requests[0].startswith("CONNECT [2001:db8::1]:6443 HTTP/1.1\r\n")
        nowhere = Access("https://192.0.2.1", proxy="http://127.0.0.1:1")
        with pytest.raises(ProxyUnreachable):
            await found.reach(Route.of(nowhere, context))

    run(scenario, lambda head: said("403 Not here"))


def test_connect_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "CONNECT_TIMEOUT", 0.01)

    async def main() -> None:
        with socket.create_server(("127.0.0.1", 0)) as silent:  # it never speaks TLS
            url = f"https://127.0.0.1:{silent.getsockname()[1]}"
            with pytest.raises(ConnectTimeout):
                await Connections().reach(Route.of(Access(url), ssl.create_default_context()))

    asyncio.run(main())


def test_the_next_address_of_a_name_is_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(server: ScriptedServer, found: Connections) -> None:
        port = urlsplit(server.url).port
        stream = (socket.AF_INET, socket.SOCK_STREAM, 6, "")

        async def resolve(*args: object, **options: object) -> list[object]:
            return [(*stream, ("127.0.0.1", 1)), (*stream, ("127.0.0.1", port))]

        monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", resolve)
        await ask(found, Route.of(Access(f"http://api.example.org:{port}"), None))
        assert server.connections == 1

    run(scenario)


@pytest.mark.parametrize("value", ["a\r\nX: y", "a\nb", "a\0b"])
def test_a_header_is_one_line(value: str) -> None:
    with pytest.raises(ValueError, match='the value of the header "Impersonate-User" has a line'):
        head_of("GET /", [("Impersonate-User", value)])
