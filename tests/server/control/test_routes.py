"""The table of the control door's paths, asked over a socket."""

from __future__ import annotations

import asyncio
import json
import os
import stat
from pathlib import Path
from typing import cast

import aiohttp
import pytest

from hsdns.server import http, http_connection
from hsdns.server.control.door import Door
from hsdns.server.control.routes import DASHBOARD, EVENTS, FILE, ROUTES, pages
from tests.server.control.served import BLOCK, SOCKET, served, write_manifest
from tests.server.loopback import ReloadableServer, running
from tests.support.coroutines.event_loops import until

pytestmark = pytest.mark.sockets
LIST = ", ".join(sorted(ROUTES))


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def is_there() -> bool:
    return Path(SOCKET).exists()


@pytest.mark.parametrize(
    ("method", "page", "status", "error"),
    [
        ("GET", "/v1/nam", 404, f"this hsdns has no /v1/nam; it has {LIST}"),
        ("GET", "/nam", 404, f"this hsdns has no /nam; it has {LIST}"),
        ("GET", "/v2/server", 404, f"this hsdns has no /v2/server; it has {LIST}"),
        ("GET", "/v1/server?all", 400, "/v1/server has no parameter all; leave out ?all"),
    ],
)
async def test_refusals(method: str, page: str, status: int, error: str) -> None:

    async with served() as server:
        found = await server.get(page, method)
        assert (found.status, found.content_type, found.lines) == (
            status, "application/json", [{"error": error}],
        )  # fmt: skip


async def test_methods() -> None:

    async with served() as server:
        assert (await server.get("/v1/names", "POST")).status == 405
        head = await server.get("/v1/names", "HEAD")
        assert (head.status, head.body) == (200, b"")


async def test_a_page_that_fails_is_logged(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:

    async with served() as server:
        monkeypatch.delattr(server.block, "state")
        found = await server.get("/v1/server")
        monkeypatch.undo()
        assert (found.status, found.lines) == (
            500, [{"error": "the server failed to answer; its log says why"}],
        )  # fmt: skip
    assert "http: the page /v1/server could not be made" in caplog.messages


async def test_the_socket_is_the_owners_alone_and_goes_with_the_server() -> None:

    async with served():
        assert stat.S_IMODE(os.stat(SOCKET).st_mode) == 0o600
    assert not is_there()


async def test_a_reload_keeps_the_socket_or_closes_it() -> None:

    async with served() as server:
        before = os.stat(SOCKET).st_ino
        assert await server.reloadable.server.reload()
        assert os.stat(SOCKET).st_ino == before
        (found,) = (await server.get("/v1/server")).lines
        assert found["server_blocks"][0]["plugins"] == ["bind", "control", "kubernetes"]
        server.reloadable.write(BLOCK.replace("control c.sock", ""))
        assert await server.reloadable.server.reload()
        assert not is_there()


async def test_a_token_on_a_loopback_address() -> None:
    Path("token").write_text("secret-of-16-octets\n")
    Path("token").chmod(0o600)
    text = BLOCK.replace("c.sock", "127.0.0.1:0 token")

    async with served(text) as server, aiohttp.ClientSession() as client:
        host, port = server.reloadable.server._http.bound["127.0.0.1:0"]
        statuses = {}
        for words in (
            "",
            "Bearer",
            "Bearer wrong",
            "Basic secret-of-16-octets",
            "Bearer secret-of-16-octets",
            "bearer secret-of-16-octets",
        ):
            headers = {"Authorization": words} if words else {}
            async with client.get(f"http://{host}:{port}/v1/server", headers=headers) as response:
                statuses[words] = response.status
                if response.status == 401:
                    assert response.headers["WWW-Authenticate"] == "Bearer"
        assert statuses == {
            "": 401, "Bearer": 401, "Bearer wrong": 401, "Basic secret-of-16-octets": 401,
            "Bearer secret-of-16-octets": 200, "bearer secret-of-16-octets": 200,
        }  # fmt: skip


async def test_an_address_of_a_container() -> None:
    """By a name of its network; without the token it says only whether it serves."""
    text = BLOCK.replace("    control c.sock\n", "")
    server = ReloadableServer(Path(), text, control=("127.0.0.1:0", "secret-of-16-octets"))
    asked = [
        ("/ready", {}, 200),
        ("/version", {}, 403),
        ("/version", {"Authorization": "Bearer wrong"}, 403),
        ("/version", {"Authorization": "Bearer secret-of-16-octets"}, 200),
        (
            "/version",
            {"Authorization": "Bearer secret-of-16-octets", "Origin": "http://evil.example"},
            403,
        ),
        ("/ready", {"Origin": "http://evil.example"}, 403),
        ("/", {}, 403),
    ]

    write_manifest()
    async with running(server), aiohttp.ClientSession() as client:
        host, port = server.server._http.bound["127.0.0.1:0"]
        for page, headers, status in asked:
            named = {"Host": f"dns:{port}", **headers}
            async with client.get(f"http://{host}:{port}{page}", headers=named) as response:
                assert response.status == status, (page, headers)


async def test_a_reader_that_takes_nothing_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    """Meanwhile another one is answered."""
    monkeypatch.setattr(http_connection, "TIMEOUT", 0.2)
    text = BLOCK.replace("manifests shop.yaml", "synthetic services=3000")

    async with served(text) as server:
        reader, writer = await asyncio.open_unix_connection(SOCKET, limit=1)
        writer.write(b"GET /v1/names HTTP/1.1\r\nHost: localhost\r\n\r\n")
        await reader.read(1)  # it has begun; no more is taken than the buffers hold
        assert (await server.get("/v1/server")).status == 200
        listener = server.reloadable.server._http._open[f"unix:{SOCKET}"]
        await until(lambda: not listener.streams, "the reader is cut off")
        writer.close()


async def test_connections_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Silent ones make room for one that asks."""
    monkeypatch.setattr(http, "MAX_CONTROL", 3)

    async with served() as server:
        silent = [await asyncio.open_unix_connection(SOCKET) for _ in range(6)]
        assert (await server.get("/version")).status == 200
        assert len(server.reloadable.server._http._control) <= 3
        for _, writer in silent:
            writer.close()


async def test_an_address_of_dashboard_has_the_page_and_what_it_asks() -> None:
    """Without a token, on the port of `health`; nothing there changes the server."""
    text = BLOCK.replace(
        "control c.sock", "control c.sock\nhealth 127.0.0.1:0\ndashboard 127.0.0.1:0"
    )

    async with served(text) as server, aiohttp.ClientSession() as client:
        host, port = server.reloadable.server._http.bound["127.0.0.1:0"]

        async def ask(path: str, method: str = "GET") -> tuple[int, str]:
            async with client.request(method, f"http://{host}:{port}{path}") as response:
                if response.content_type == EVENTS:
                    return response.status, (await response.content.readline()).decode()
                return response.status, await response.text()

        status, body = await ask("/")
        assert (status, body) == (200, FILE.read_text())
        status, body = await ask("/v1/explain?name=web.shop.svc.cluster.local")
        assert (status, json.loads(body)["outcome"]) == (200, "resolves")
        status, body = await ask("/v1/top/events")
        assert (status, json.loads(body.removeprefix("data: "))["failing"]) == (200, [])
        assert await ask("/health") == (200, "OK")
        for path in (set(ROUTES) | {"/nothing"}) - set(DASHBOARD):
            assert (await ask(path))[0] == 404, path
        for path in DASHBOARD:
            assert (await ask(path, "POST"))[0] == 405
        assert {method for path in DASHBOARD for method in ROUTES[path].methods} == {"GET"}


def test_pages_without_the_token() -> None:
    streams = pages(cast("Door", None), "secret-of-16-octets")
    without = [path for path, stream in streams.items() if stream.token is None]
    assert without == ["/", "/ready"]
    assert [path for path in without if streams[path].any_host] == ["/ready"]
