"""The control door over its socket: who may ask, what each path refuses, and the pages that have no file of their own."""

from __future__ import annotations

import asyncio
import json
import os
import stat
from collections.abc import AsyncGenerator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import aiohttp
import pytest

from hsdns import __version__
from hsdns.cluster.answer_set import texts, to_object
from hsdns.http_page import HttpRefusal, PageRequest
from hsdns.plugin import Plugin
from hsdns.server import http, runtime
from hsdns.server import http as http_connection
from hsdns.server.control import cluster as watch
from hsdns.server.control import queries, routes
from hsdns.server.control.door import Door, to_line
from hsdns.server.control.faults import NOT_KEPT
from hsdns.server.control.routes import DASHBOARD, EVENTS, FILE, NO_REPLAY, ROUTES, events, pages
from tests.server.control.served import (
    BLOCK,
    SOCKET,
    UNREAD,
    Beside,
    MemoryDoor,
    served,
    write_manifest,
)
from tests.server.control.shown import NO_DOOR
from tests.server.loopback import ReloadableServer, running
from tests.support.coroutines.event_loops import until

pytestmark = pytest.mark.sockets
LIST = ", ".join(sorted(ROUTES))
SYNTHETIC = BLOCK.replace("manifests shop.yaml", "synthetic services=60")
TOKEN = "secret-of-16-octets"
BEARER = {"Authorization": f"Bearer {TOKEN}"}
WHOAMI = ". {\nbind 127.0.0.1\ncontrol c.sock\nwhoami\n}\n"
TWO = """a.test {
bind 127.0.0.1\ncontrol c.sock\nkubernetes {\nsource manifests shop.yaml\n}
}
b.test {
bind 127.0.0.1\nkubernetes {\nsource synthetic services=1\n}
}
"""
REPLAY = BLOCK.replace("manifests shop.yaml", "replay no.rec\nstartup_timeout 0s")
COREFILES = {"": BLOCK, "whoami": WHOAMI, "two": TWO, "replay": REPLAY}
A_RULE = 'a rule is added with {"rule": "drop type AAAA"}: '


def is_there() -> bool:
    return Path(SOCKET).exists()


@pytest.mark.parametrize(
    ("corefile", "method", "page", "body", "status", "error"),
    [
        ("", "GET", "/v1/nam", "", 404, f"this hsdns has no /v1/nam; it has {LIST}"),
        ("", "GET", "/nam", "", 404, f"this hsdns has no /nam; it has {LIST}"),
        ("", "GET", "/v2/server", "", 404, f"this hsdns has no /v2/server; it has {LIST}"),
        ("", "GET", "/v1/server?all", "", 400, "/v1/server has no parameter all; leave out ?all"),
        ("", "POST", "/v1/names", "", 405, "/v1/names has no POST; it has GET"),
        ("whoami", "GET", "/v1/names", "", 404, "Corefile: there is no kubernetes block, so there are no names to list"),
        ("", "GET", "/v1/explain?name=web&ndots=x", "", 400, 'ndots is a number from 0 to 15, found "x"'),
        ("", "GET", "/v1/explain", "", 400, "no name is given; ask for /v1/explain?name=NAME&type=TYPE"),
        ("", "GET", "/v1/explain?name=a..b", "", 400, '"a..b" is not a domain name: a label is empty'),
        ("", "GET", "/v1/explain?name=a&type=qq", "", 400, '"QQ" is not a record type; try A, AAAA, SRV, PTR or CNAME'),
        ("", "GET", "/v1/queries?last=7", "", 404, queries.NOT_KEPT),
        ("", "GET", "/v1/queries?last=0", "", 400, 'last is a number of queries from 1 to 1000, not "0"'),
        ("", "GET", "/v1/queries?last=1001", "", 400, 'last is a number of queries from 1 to 1000, not "1001"'),
        ("", "GET", "/v1/queries?last=x", "", 400, 'last is a number of queries from 1 to 1000, not "x"'),
        ("", "GET", "/v1/queries?first=1", "", 400, "/v1/queries has no parameter first; it has last, namespace, name"),
        ("", "GET", "/v1/top?once=2", "", 400, 'once is 1 for a single picture, or 0, not "2"'),
        ("", "GET", "/v1/top?namespace=a.b", "", 400, 'namespace is one label, such as default, not "a.b"'),
        ("", "GET", "/v1/top?namespace=", "", 400, 'namespace is one label, such as default, not ""'),
        ("", "GET", "/v1/top?name=a..b", "", 400, 'name: "a..b" is not a domain name: a label is empty'),
        ("", "GET", "/v1/top?zone=x", "", 400, "/v1/top has no parameter zone; it has once, namespace, name"),
        ("whoami", "GET", "/v1/watch", "", 404, "this server has no kubernetes block, so there are no objects"),
        ("two", "GET", "/v1/watch", "", 400, "this server has several kubernetes blocks; choose one by its zone: a.test., b.test."),
        ("two", "GET", "/v1/watch?zone=c.test", "", 400, 'no kubernetes block has the zone "c.test"; there are a.test., b.test.'),
        ("", "GET", "/v1/watch?zone=", "", 400, 'no kubernetes block has the zone ""; there are cluster.local., in-addr.arpa.'),
        ("", "GET", "/v1/watch?name=x", "", 400, "/v1/watch has no parameter name; it has zone"),
        ("", "GET", "/v1/replay", "", 404, NO_REPLAY),
        ("replay", "GET", "/v1/replay", "", 404, "no.rec could not be read when the server started"),
        ("", "POST", "/v1/faults", '{"rule": "dorp"}', 400, '"dorp" is no action of a fault; did you mean "drop"?'),
        ("", "POST", "/v1/faults", '{"rule": "drop name x.example"}', 400, "the rule can never match: no server block has a zone for its names; the zones are cluster.local., in-addr.arpa."),
        ("", "POST", "/v1/faults", "drop", 400, f"{A_RULE}JSON is malformed: invalid character (byte 0)"),
        ("", "POST", "/v1/faults", '{"rules": "drop"}', 400, f"{A_RULE}Object contains unknown field `rules`"),
        ("", "POST", "/v1/faults?name=x", '{"rule": "drop"}', 400, '/v1/faults takes name with DELETE and GET; a rule that is added has "named"'),
        ("", "DELETE", "/v1/faults?name=x", "", 400, 'no rule named "x" stands'),
        ("", "PUT", "/v1/faults", "", 405, "/v1/faults has no PUT; it has GET, POST, DELETE"),
        ("", "POST", "/v1/faults/hits", "", 405, "/v1/faults/hits has no POST; it has GET"),
        ("", "POST", "/v1/faults?dry-run=0", '{"rule": "drop"}', 400, 'dry-run is a number of queries from 1 to 1000, not "0"'),
        ("", "POST", "/v1/faults?dry-run=5", '{"rule": "drop"}', 404, NOT_KEPT),
        ("", "POST", "/v1/faults?dry-run=5&name=x", '{"rule": "drop"}', 400, '/v1/faults takes name with DELETE and GET; a rule that is added has "named"'),
        ("", "GET", "/v1/faults?dry-run=5", "", 400, "/v1/faults takes dry-run with POST"),
        ("", "DELETE", "/v1/faults?dry-run=5", "", 400, "/v1/faults takes dry-run with POST"),
    ],
)  # fmt: skip
async def test_refusals(
    corefile: str, method: str, page: str, body: str, status: int, error: str
) -> None:
    async with served(COREFILES[corefile], faults=True) as server:
        found = await server.get(page, method, body.encode())
        assert found[:2] == (status, "application/json")
        assert found.lines == [{"error": error}]
        assert (await server.get("/v1/faults")).lines == []


async def test_head() -> None:
    async with served() as server:
        head = await server.get("/v1/names", "HEAD")
        assert (head.status, head.body) == (200, b"")


async def test_a_page_that_fails_is_logged(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with served() as server:
        monkeypatch.delattr(server.block, "state")
        found = await server.get("/v1/server")
        monkeypatch.undo()
        error = "the server failed to answer; its log says why"
        assert (found.status, found.lines) == (500, [{"error": error}])
    assert "http: the page /v1/server could not be made" in caplog.messages


async def test_a_watch_thread_that_is_busy(monkeypatch: pytest.MonkeyPatch) -> None:
    async def late(*of: Any) -> Any:
        of[1].close()
        raise TimeoutError

    async with served() as server:
        monkeypatch.setattr(runtime.ServerRuntime, "in_watch", late)
        found = await server.get("/v1/watch")
        assert (found.status, found.lines) == (503, [{"error": watch.BUSY}])


async def test_the_socket_is_the_owners_alone_and_goes_with_the_server() -> None:
    async with served():
        assert stat.S_IMODE(os.stat(SOCKET).st_mode) == 0o600
    assert not is_there()


async def test_a_reload_keeps_the_socket_or_closes_it() -> None:
    async with served() as server:
        before = os.stat(SOCKET).st_ino
        assert await server.reloadable.server.reload()
        assert os.stat(SOCKET).st_ino == before
        server.reloadable.write(BLOCK.replace("control c.sock", ""))
        assert await server.reloadable.server.reload()
        assert not is_there()


async def test_a_token_on_a_loopback_address() -> None:
    Path("token").write_text(f"{TOKEN}\n")
    Path("token").chmod(0o600)
    expected = {
        "": 401, "Bearer": 401, "Bearer wrong": 401, f"Basic {TOKEN}": 401, f"Bearer {TOKEN}": 200, f"bearer {TOKEN}": 200,
    }  # fmt: skip
    text = BLOCK.replace("c.sock", "127.0.0.1:0 token")
    async with served(text) as server, aiohttp.ClientSession() as client:
        host, port = server.reloadable.server.http.bound["127.0.0.1:0"]
        for words, status in expected.items():
            headers = {"Authorization": words} if words else {}
            async with client.get(f"http://{host}:{port}/v1/server", headers=headers) as response:
                challenge = response.headers.get("WWW-Authenticate")
                assert (response.status, challenge) == (
                    status,
                    "Bearer" if status == 401 else None,
                ), words


async def test_an_address_of_a_container() -> None:
    """By a name of its network; without the token it says only whether it serves."""
    text = BLOCK.replace("    control c.sock\n", "")
    server = ReloadableServer(Path(), text, control=("127.0.0.1:0", TOKEN))
    other_site = {"Origin": "http://evil.example"}
    asked: list[tuple[str, dict[str, str], int]] = [
        ("/ready", {}, 200),
        ("/version", {}, 403),
        ("/version", {"Authorization": "Bearer wrong"}, 403),
        ("/version", BEARER, 200),
        ("/version", BEARER | other_site, 403),
        ("/ready", other_site, 403),
        ("/", {}, 403),
    ]
    write_manifest()
    async with running(server), aiohttp.ClientSession() as client:
        host, port = server.server.http.bound["127.0.0.1:0"]
        for page, headers, status in asked:
            named = {"Host": f"dns:{port}", **headers}
            async with client.get(f"http://{host}:{port}{page}", headers=named) as response:
                assert response.status == status, (page, headers)


def test_pages_without_the_token() -> None:
    streams = pages(NO_DOOR, TOKEN)
    without = [path for path, stream in streams.items() if stream.token is None]
    assert without == ["/", "/ready"]
    assert [path for path in without if streams[path].any_host] == ["/ready"]


async def test_a_reader_that_takes_nothing_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    """Meanwhile another one is answered."""
    monkeypatch.setattr(http_connection, "TIMEOUT", 0.2)
    text = BLOCK.replace("manifests shop.yaml", "synthetic services=3000")
    async with served(text) as server:
        reader, writer = await asyncio.open_unix_connection(SOCKET, limit=1)
        writer.write(b"GET /v1/names HTTP/1.1\r\nHost: localhost\r\n\r\n")
        await reader.read(1)  # it has begun; no more is taken than the buffers hold
        assert (await server.get("/v1/server")).status == 200
        listener = server.reloadable.server.http._open[f"unix:{SOCKET}"]
        await until(lambda: not listener.streams, "the reader is cut off")
        writer.close()


async def test_connections_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Silent ones make room for one that asks."""
    monkeypatch.setattr(http, "MAX_CONTROL", 3)
    async with served() as server:
        silent = [await asyncio.open_unix_connection(SOCKET) for _ in range(6)]
        assert (await server.get("/version")).status == 200
        assert len(server.reloadable.server.http._control) <= 3
        for _, writer in silent:
            writer.close()


async def test_an_address_of_dashboard_has_the_page_and_what_it_asks() -> None:
    """Without a token, on the port of `health`; nothing there changes the server."""
    text = BLOCK.replace("c.sock", "c.sock\nhealth 127.0.0.1:0\ndashboard 127.0.0.1:0")
    async with served(text) as server, aiohttp.ClientSession() as client:
        host, port = server.reloadable.server.http.bound["127.0.0.1:0"]

        async def ask(path: str, method: str = "GET") -> tuple[int, str]:
            async with client.request(method, f"http://{host}:{port}{path}") as response:
                if response.content_type == EVENTS:
                    return response.status, (await response.content.readline()).decode()
                return response.status, await response.text()

        assert await ask("/") == (200, FILE.read_text())
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


# --- /ready, /version, /v1/server ---


class Waits(Plugin):
    name = "kubernetes"

    def ready(self) -> bool:
        return False


async def test_ready() -> None:
    async with served() as server:
        assert await server.get("/ready") == (200, "text/plain", b"OK\n")
    door = MemoryDoor().door
    instance: Any = SimpleNamespace(configuration=SimpleNamespace(plugins=[Waits()]))
    door.instance = lambda: instance
    with pytest.raises(HttpRefusal, match=r"^not ready yet: kubernetes$") as raised:
        await anext(routes.ready(door, PageRequest()))
    assert raised.value.status == 503
    door.instance = lambda: None
    with pytest.raises(HttpRefusal, match="the server starts or ends, and has no answers") as raised:  # fmt: skip
        door.serving()
    assert raised.value.status == 503


async def test_version_and_server() -> None:
    versions = {path.split("/")[1] for path in ROUTES if path.startswith("/v1/")}
    assert set(routes.API) == versions
    async with served() as server:
        version = {"server": "hsdns", "version": __version__, "pid": os.getpid(), "api": ["v1"]}
        assert (await server.get("/version")).lines == [version]
        (found,) = (await server.get("/v1/server")).lines
        port, corefile = server.reloadable.port, server.reloadable.server.configuration.corefile
        listener, zones = f"dns://127.0.0.1:{port}", ["cluster.local.", "in-addr.arpa."]
        assert found.pop("uptime_seconds") >= 0
        assert found["kubernetes"][0].pop("last_change").endswith("+00:00")
        assert found == {
            "version": __version__,
            "pid": os.getpid(),
            "corefile": {"path": "Corefile", "digest": corefile.digest},
            "listeners": [{"server": listener, "scheme": "dns", "host": "127.0.0.1", "port": port, "zones": zones}],
            "server_blocks": [{
                "keys": ["cluster.local", "in-addr.arpa"], "zones": zones, "listeners": [listener],
                "plugins": ["bind", "control", "kubernetes"],
            }],
            "kubernetes": [{"zones": zones, "source": "manifests shop.yaml", "ready": True, "remark": "", "services": 1}],
        }  # fmt: skip


async def test_a_cluster_that_is_not_read_yet() -> None:
    async with served(UNREAD) as server:
        (block,) = (await server.get("/v1/server")).lines[0]["kubernetes"]
        assert (block["ready"], block["last_change"], block["source"]) == (
            False, None, "http://127.0.0.1:1",
        )  # fmt: skip
        problem = "kubernetes cluster.local. in-addr.arpa.: the cluster has not been read yet"
        assert (await server.get("/v1/names")).lines == [{"problem": problem}]


# --- /v1/names ---


async def test_all_names_are_listed() -> None:
    """The same as the answer set has, in its order; what can be any name is told at the end."""
    async with served(SYNTHETIC.replace("source", "pods insecure\nsource")) as server:
        found = await server.get("/v1/names")
        answer_set = server.block.answer_set()
        assert found.content_type == "application/jsonl"
        *names, last = found.lines
        assert names == [
            to_object(zone, rrset, list(texts(rrset)))
            for zone in server.block.zones
            for rrset in answer_set.of_zone(zone)
        ]
        assert len(names) > 60
        any_pod = "A-B-C-D.NAMESPACE.pod.cluster.local. A A.B.C.D: any address (pods insecure)"
        assert last == {"open_ended": any_pod}


async def test_others_run_between_the_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a turn that is long at once, another task runs before each RRset: it is not kept waiting for the whole."""
    monkeypatch.setattr(runtime, "MAX_TURN", -1.0)
    async with served(SYNTHETIC) as server:
        door = server.reloadable.server.door
        with Beside() as beside:
            listed = [piece async for piece in routes.names(door, PageRequest())]
        lines = sum(piece.count(b"\n") for piece in listed)
        assert beside.turns >= lines > 60
        assert max(map(len, listed)) < 2 * routes.PIECE


# --- lines and events ---


def test_a_line_is_one_line() -> None:
    assert to_line({"name": "a\nb"}) == b'{"name":"a\\nb"}\n'


async def test_each_line_is_an_event() -> None:
    ended = []

    async def lines(door: Door, asked: PageRequest) -> AsyncGenerator[bytes, None]:
        try:
            yield b'{"asked":"%s"}\n' % asked.parameters["name"].encode()
            yield b"1\n2\n"
            yield b"never read\n"
        finally:
            ended.append(1)

    made = events(lines)(cast("Door", None), PageRequest(parameters={"name": "a"}))
    assert await anext(made) == b'data: {"asked":"a"}\n\n'
    assert await anext(made) == b"data: 1\n\ndata: 2\n\n"
    await made.aclose()
    assert ended == [1], "the lines end with their reader"
