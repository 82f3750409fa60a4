"""The control API over its socket: who may ask, what each path refuses, and the pages that have no file of their own."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import aiohttp
import pytest

from hsdns import __version__
from hsdns.http_page import HttpRefusal, PageRequest
from hsdns.plugin import Plugin
from hsdns.server import runtime
from hsdns.server.control import cluster as watch
from hsdns.server.control import queries, routes
from hsdns.server.control.faults import NOT_KEPT
from hsdns.server.control.routes import DASHBOARD, EVENTS, FILE, NO_REPLAY, ROUTES
from hsdns.server.http import pages as http
from hsdns.wire.iana import type_to_text
from tests.server.control.served import BLOCK, SOCKET, UNREAD, MemoryDoor, served, write_manifest
from tests.server.loopback import ReloadableServer, running
from tests.support.coroutines.event_loops import until
from tests.support.tables import columns

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
COREFILES = {"shop": BLOCK, "whoami": WHOAMI, "two": TWO, "replay": REPLAY}
REFUSALS = Path(__file__).with_name("refusals.txt")
A_RULE = 'a rule is added with {"rule": "drop type AAAA"}: '
SENTENCES = {
    "LIST": LIST,
    "NOT_KEPT": NOT_KEPT,
    "QUERIES_NOT_KEPT": queries.NOT_KEPT,
    "NO_REPLAY": NO_REPLAY,
    "A_RULE": A_RULE,
}


@pytest.mark.parametrize(("given", "expected"), columns(REFUSALS, "refusals"))
async def test_refusals(given: str, expected: str) -> None:
    corefile, method, page, body = [*given.split(" ", 3), ""][:4]
    status, _, error = expected.partition(" ")
    for word, sentence in SENTENCES.items():
        error = error.replace(f"{{{word}}}", sentence)
    async with served(COREFILES[corefile], faults=True) as server:
        found = await server.get(page, method, body.encode())
        assert found[:2] == (int(status), "application/json")
        assert found.lines == [{"error": error}]
        assert (await server.get("/v1/faults")).lines == []


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
    server = ReloadableServer(Path(), text, control=(("127.0.0.1:0", TOKEN),))
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


async def test_a_reader_that_takes_nothing_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    """Meanwhile another one is answered."""
    monkeypatch.setattr(http, "TIMEOUT", 0.2)
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
    with pytest.raises(HttpRefusal, match="the server is starting or stopping") as raised:  # fmt: skip
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
        assert found.pop("dashboard") == ""
        assert found["kubernetes"][0].pop("last_change").endswith("+00:00")
        assert found == {
            "version": __version__,
            "pid": os.getpid(),
            "corefile": {"path": "Corefile", "digest": corefile.digest},
            "listeners": [{"server": listener, "scheme": "dns", "host": "127.0.0.1", "port": port, "zones": zones}],
            "server_blocks": [{
                "keys": ["cluster.local", "in-addr.arpa"], "zones": zones, "listeners": [listener],
                "plugins": ["bind", "control", "kubernetes"], "stored": "all", "reason": "",
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
        assert [(each["name"], each["type"], len(each["records"])) for each in names] == [
            (rrset[0].owner.to_text(), type_to_text(rrset[0].rrtype), len(rrset))
            for zone in server.block.zones
            for rrset in answer_set.of_zone(zone)
        ]
        assert len(names) > 60
        soa = "ns.dns.cluster.local. hostmaster.cluster.local. "
        assert names[0].pop("records")[0].startswith(soa)
        assert names[0] == {
            "name": "cluster.local.", "type": "SOA", "ttl": 5, "zone": "cluster.local."
        }  # fmt: skip
        any_pod = "A-B-C-D.NAMESPACE.pod.cluster.local. A A.B.C.D: any address (pods insecure)"
        assert last == {"open_ended": any_pod}
