"""The server's life on loopback: start, change over, stop."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import os
import signal
import socket
import ssl
import threading
import weakref
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, ClassVar
from unittest.mock import patch

import pytest

from hsdns.assemble import ListenAddress, assemble
from hsdns.chain import Handler, Next, Request
from hsdns.cluster.objects import Upserted
from hsdns.corefile.parser import parse
from hsdns.corefile.tree import CorefileError
from hsdns.plugin import Plugin, Runtime
from hsdns.plugins import ORDER
from hsdns.plugins.debug import Debug
from hsdns.plugins.errors import Errors
from hsdns.plugins.health import Health
from hsdns.plugins.whoami import Whoami
from hsdns.server import lifecycle, listeners
from hsdns.server.lifecycle import Server, StartError
from hsdns.server.sockets import ListenError, open_both
from hsdns.server.tcp import TcpServer
from hsdns.server.udp import UdpListener
from hsdns.wire.message import Reply
from loadtest.ports import free_port
from tests.support.cluster import service
from tests.support.cluster_server import Asker, ClusterServer
from tests.support.kept import KUBERNETES, ask, cluster_objects
from tests.support.sockets import LOOPS, TcpClient, UdpClient, query, run, summary, until
from tests.support.udp_listeners import KINDS, NEEDS_NATIVE, serving_with

pytestmark = pytest.mark.sockets

NOERROR = "1 NOERROR qr aa rd"
REFUSED = "1 REFUSED qr rd |  |  | "


class Site:
    """A Corefile that can be rewritten, and the server of it."""

    def __init__(self, folder: Path, text: str) -> None:
        self.path = folder / "Corefile"
        self.port = free_port()
        self.write(text)
        self.warnings: list[str] = []
        self.server = Server(
            lambda: parse(str(self.path), environ={}, known_directives=ORDER),
            lambda corefile: assemble(
                corefile,
                default_port=self.port,
                interfaces=lambda: {"lo": ["127.0.0.1", "::1"]},
                warn=self.warnings.append,
            ),
        )

    def write(self, text: str) -> None:
        """Replace the Corefile; PORT stands for the site's port."""
        self.path.write_text(text.replace("PORT", str(self.port)))

    @property
    def failures(self) -> float:
        return self.server.metrics.counter("coredns_reload_failed_total", "").values[()]

    async def ask(self, qname: str = "example.org", port: int = 0, host: str = "127.0.0.1") -> str:
        with UdpClient() as client:
            wire, came_from = await client.ask(query(qname).to_wire(), (host, port or self.port))
            assert came_from == host
            return summary(wire)

    async def ask_tcp(self, qname: str = "example.org") -> str:
        async with TcpClient(("127.0.0.1", self.port)) as client:
            client.send(query(qname).to_wire())
            return summary(await client.receive())


def is_free(port: int, host: str = "127.0.0.1") -> bool:
    try:
        pair = open_both(ListenAddress(host, port))
    except ListenError:
        return False
    for sock in pair:
        sock.close()
    return True


@asynccontextmanager
async def running(site: Site) -> AsyncIterator[Site]:
    await site.server.start()
    try:
        yield site
    finally:
        await site.server.close()
        assert other_tasks() == set()


def other_tasks() -> set[asyncio.Task[Any]]:
    return {task for task in asyncio.all_tasks() if task is not asyncio.current_task()}


WHOAMI = ". {\nbind 127.0.0.1\nwhoami\n}\n"


async def fetch(port: int, path: str) -> str:
    """The status line of a page."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(
            f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode()
        )
        return (await reader.readline()).decode().strip()
    finally:
        writer.close()


# --- start ---


@pytest.mark.parametrize("loop", LOOPS)
def test_start_serves_udp_and_tcp(loop: str, tmp_path: Path) -> None:
    async def test() -> None:
        async with running(Site(tmp_path, WHOAMI)) as site:
            assert (await site.ask()).startswith(NOERROR)
            assert (await site.ask_tcp()).startswith(NOERROR)
            assert site.server.addresses == {
                ListenAddress("127.0.0.1", site.port): ("127.0.0.1", site.port)
            }
        assert is_free(site.port)

    run(test(), loop)


def test_bound_and_unbound_blocks_share_a_port(tmp_path: Path) -> None:
    """As with CoreDNS: a query to the bound address sees the bound block alone."""

    async def test() -> None:
        text = "a.org {\nbind 127.0.0.1\nwhoami\n}\nb.org {\nwhoami\n}\n"
        async with running(Site(tmp_path, text)) as site:
            assert (await site.ask("a.org")).startswith(NOERROR)
            assert await site.ask("b.org") == REFUSED
            assert await site.ask("a.org", host="127.0.0.2") == REFUSED
            assert (await site.ask("b.org", host="127.0.0.2")).startswith(NOERROR)

    run(test())


@pytest.mark.parametrize(
    ("text", "error"),
    [
        pytest.param(". {\nwhoam\n}", "unknown directive", id="parse"),
        pytest.param(". {\nwhoami x\n}", "takes no argument", id="setup"),
        pytest.param(". {\nbind 127.0.0.1\nkubernetes cluster.local\n}", "not in a cluster: KUBERNETES_SERVICE_HOST is not set", id="start"),
    ],
)  # fmt: skip
def test_corefile_that_is_wrong_starts_nothing(text: str, error: str, tmp_path: Path) -> None:
    async def test() -> None:
        site = Site(tmp_path, text)
        with pytest.raises(CorefileError, match=error):
            await site.server.start()
        assert other_tasks() == set()
        assert site.server.addresses == {}
        assert is_free(site.port)

    run(test())


@pytest.mark.parametrize("kind", [socket.SOCK_DGRAM, socket.SOCK_STREAM], ids=["udp", "tcp"])
def test_taken_port_starts_nothing(kind: socket.SocketKind, tmp_path: Path) -> None:
    async def test() -> None:
        http, free = free_port(), free_port()
        site = Site(
            tmp_path,
            f"a.org:{free} .:PORT {{\nbind 127.0.0.1\nhealth 127.0.0.1:{http}\nwhoami\n}}\n",
        )
        with socket.socket(type=kind) as other:
            other.bind(("127.0.0.1", site.port))
            if kind == socket.SOCK_STREAM:
                other.listen()
            with pytest.raises(StartError, match="another program has the port"):
                await site.server.start()
            assert other_tasks() == set()
            assert is_free(free)
        assert is_free(site.port)
        assert is_free(http)

    run(test())


class Recording(Plugin):
    """A stand-in for a plugin that writes down its life."""

    name: ClassVar[str] = "debug"
    log: ClassVar[list[str]] = []

    @classmethod
    def setup(cls, directives: Any, block: Any) -> Any:
        return cls()

    async def start(self, runtime: Runtime) -> None:
        self.log.append("start")
        runtime.spawn(asyncio.Event().wait(), "forever")

    async def stop(self) -> None:
        self.log.append("stop")
        raise ValueError("does not stop cleanly")


def test_start_that_fails_stops_what_has_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Recording, "log", [])
    monkeypatch.setattr(Debug, "start", Recording.start)
    monkeypatch.setattr(Debug, "stop", Recording.stop)
    monkeypatch.setattr(Debug, "log", Recording.log, raising=False)

    async def fail(self: Plugin, runtime: Runtime) -> None:
        raise RuntimeError("a fault of the plugin")

    monkeypatch.setattr(Whoami, "start", fail)

    async def test() -> None:
        site = Site(tmp_path, ". {\nbind 127.0.0.1\ndebug\nwhoami\n}\n")
        with pytest.raises(RuntimeError, match="a fault of the plugin"):
            await site.server.start()
        assert Recording.log == ["start", "stop"]
        assert other_tasks() == set()
        assert is_free(site.port)

    run(test())


def test_probes_are_answered_while_a_plugin_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """health, ready and metrics stand before kubernetes in ORDER, which waits for the cluster."""

    async def test() -> None:
        http, seen = free_port(), list[str]()

        async def look(self: Plugin, runtime: Runtime) -> None:
            seen.append(await fetch(http, "/health"))

        monkeypatch.setattr(Whoami, "start", look)
        site = Site(tmp_path, f". {{\nbind 127.0.0.1\nhealth 127.0.0.1:{http}\nwhoami\n}}\n")
        async with running(site):
            assert seen == ["HTTP/1.1 200 OK"]

    run(test())


# --- change over ---


@pytest.mark.parametrize("loop", LOOPS)
def test_reload_loses_no_query(loop: str, tmp_path: Path) -> None:
    async def test() -> None:
        async with running(Site(tmp_path, WHOAMI)) as site:
            before = [site.server.listeners.udp[listen].sock for listen in site.server.addresses]
            answered = 0
            done = False

            async def ask() -> None:
                nonlocal answered
                with UdpClient() as client:
                    while not done:
                        wire, _ = await client.ask(
                            query(number=answered).to_wire(), ("127.0.0.1", site.port)
                        )
                        assert wire[3] & 15 == 0
                        answered += 1

            async with TcpClient(("127.0.0.1", site.port)) as kept, asyncio.TaskGroup() as group:
                for _ in range(4):
                    group.create_task(ask())
                for turn in range(5):
                    asked = answered
                    await until(lambda asked=asked: answered > asked + 20, "queries answered")  # type: ignore[misc]  # mypy cannot infer a default's type
                    site.write(
                        WHOAMI.replace("whoami", "log\nwhoami" if turn % 2 else "whoami\nerrors")
                    )
                    assert await site.server.reload()
                    kept.send(query(number=turn).to_wire())
                    assert (await kept.receive())[1] == turn
                done = True
            after = [site.server.listeners.udp[listen].sock for listen in site.server.addresses]
            assert after == before
            assert site.failures == 0

    run(test(), loop)


def test_reload_exchanges_plugins(tmp_path: Path) -> None:
    async def test() -> None:
        async with running(Site(tmp_path, WHOAMI)) as site:
            site.write(WHOAMI.replace(". {", "example.net {"))
            assert await site.server.reload()
            assert await site.ask("example.org") == REFUSED
            assert (await site.ask("example.net")).startswith(NOERROR)

    run(test())


class Held(Handler):
    """Answers when it is let, from a task."""

    name: ClassVar[str] = "whoami"
    waits: ClassVar[bool] = True


def test_query_in_work_is_answered_by_the_old_plugins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test() -> None:
        go_on = asyncio.Event()

        async def wait(self: Handler, request: Request, next: Next) -> Reply:  # noqa: A002 - the word of the plugin interface
            await go_on.wait()
            return Reply(rcode=3)

        monkeypatch.setattr(Whoami, "handle", wait)
        monkeypatch.setattr(Whoami, "waits", True, raising=False)
        async with running(Site(tmp_path, WHOAMI)) as site:
            with UdpClient() as client:
                client.sock.sendto(query().to_wire(), ("127.0.0.1", site.port))
                (udp,) = site.server.listeners.udp.values()
                await until(lambda: udp.pending == 1, "a query in work")
                site.write(WHOAMI.replace(". {", "example.net {"))
                assert await site.server.reload()
                assert udp.pending == 1
                go_on.set()
                assert summary((await client.receive())[0]) == "1 NXDOMAIN qr rd |  |  | "

    run(test())


@pytest.mark.parametrize("loop", LOOPS)
def test_reload_opens_and_closes_ports(loop: str, tmp_path: Path) -> None:
    async def test() -> None:
        async with running(Site(tmp_path, WHOAMI)) as site:
            other = free_port()
            site.write(WHOAMI + WHOAMI.replace(". {", f".:{other} {{"))
            assert await site.server.reload()
            assert (await site.ask(port=other)).startswith(NOERROR)
            assert (await site.ask()).startswith(NOERROR)
            site.write(WHOAMI.replace(". {", f".:{other} {{"))
            assert await site.server.reload()
            assert (await site.ask(port=other)).startswith(NOERROR)
            await until(lambda: is_free(site.port), "the old port given back")
            assert list(site.server.addresses) == [ListenAddress("127.0.0.1", other)]

    run(test(), loop)


@pytest.mark.parametrize(
    ("first", "second"),
    [("", "bind 127.0.0.1"), ("bind 127.0.0.1", ""), ("bind 127.0.0.1", "bind 0.0.0.0")],
    ids=["to-one-address", "to-all", "to-all-ipv4"],
)
def test_reload_changes_the_bound_address(first: str, second: str, tmp_path: Path) -> None:
    """The old socket is still open while the new one is bound to the same port."""

    async def test() -> None:
        text = ". {\nBIND\nwhoami\n}\n"
        async with running(Site(tmp_path, text.replace("BIND", first))) as site:
            site.write(text.replace("BIND", second))
            assert await site.server.reload()
            assert (await site.ask()).startswith(NOERROR)
            assert len(site.server.addresses) == 1

    run(test())


BROKEN = [
    pytest.param(". {\nwhoam\n}", 'unknown directive "whoam"; did you mean "whoami"?', id="parse"),
    pytest.param(". {\nwhoami x\n}", '"whoami" takes no argument', id="setup"),
    pytest.param(". {\nbind 127.0.0.1\nkubernetes cluster.local\n}", "not in a cluster: KUBERNETES_SERVICE_HOST is not set", id="start"),
    pytest.param(". {\nbind 192.0.2.99\nwhoami\n}", "this host has no such address", id="socket"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("by_itself", "who"),
    [(True, "plugin/reload: Corefile changed but reload failed: "), (False, "SIGUSR1: ")],
)
@pytest.mark.parametrize(("text", "error"), BROKEN)
def test_reload_of_a_broken_file_keeps_the_old_one(
    text: str,
    error: str,
    by_itself: bool,
    who: str,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def test() -> None:
        async with running(Site(tmp_path, WHOAMI)) as site:
            tasks = other_tasks()
            site.write(text)
            caplog.clear()
            with caplog.at_level(logging.INFO, "hsdns"):
                assert not await site.server.reload(only_if_changed=by_itself)
            said = [line for line in caplog.messages if not line.startswith("plugin/kubernetes: ")]
            begun, failed, again = said
            assert begun == "Reloading"
            assert failed.startswith("Restart failed: ")
            assert error in failed
            assert failed.endswith(" (serving goes on as before)")
            assert again.startswith(who)
            assert error in again
            assert site.failures == 1
            assert (await site.ask()).startswith(NOERROR)
            assert list(site.server.addresses) == [ListenAddress("127.0.0.1", site.port)]
            assert other_tasks() == tasks
            site.write(WHOAMI)
            assert await site.server.reload()
            assert site.failures == 1

    run(test())


@pytest.mark.parametrize(("text", "error"), BROKEN)
def test_broken_file_is_tried_once(text: str, error: str, tmp_path: Path) -> None:
    async def test() -> None:
        async with running(Site(tmp_path, WHOAMI)) as site:
            site.write(text)
            for _ in range(3):
                await site.server.reload(only_if_changed=True)
            assert site.failures == 1
            site.write(f"# another look\n{text}")
            await site.server.reload()
            assert site.failures == 2

    run(test())


def test_fault_of_a_plugin_keeps_the_old_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def fail(self: Plugin, runtime: Runtime) -> None:
        raise RuntimeError("a fault of the plugin")

    async def test() -> None:
        async with running(Site(tmp_path, WHOAMI)) as site:
            monkeypatch.setattr(Errors, "start", fail)
            site.write(WHOAMI.replace("whoami", "whoami\nerrors"))
            assert not await site.server.reload(only_if_changed=True)
            assert site.failures == 1
            assert caplog.messages[-2:] == [
                "Restart failed; serving goes on as before",
                "plugin/reload: Corefile changed but reload failed: a fault of the plugin",
            ]
            assert (await site.ask()).startswith(NOERROR)

    run(test())


@pytest.mark.parametrize(
    ("text", "reloads"),
    [
        pytest.param(WHOAMI, 0, id="untouched"),
        pytest.param("# a comment\n" + WHOAMI, 0, id="comment"),
        pytest.param(WHOAMI.replace("whoami", "whoami\nlog"), 1, id="changed"),
    ],
)
def test_reload_if_changed(text: str, reloads: int, tmp_path: Path) -> None:
    async def test() -> None:
        async with running(Site(tmp_path, WHOAMI)) as site:
            before = site.server.configuration
            site.write(text)
            runtime = site.server._runtime
            assert runtime is not None
            await runtime.reload_if_changed()
            assert (site.server.configuration is not before) is bool(reloads)

    run(test())


def test_plugins_of_the_old_configuration_are_stopped_with_their_tasks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(Recording, "log", [])
    monkeypatch.setattr(Debug, "start", Recording.start)
    monkeypatch.setattr(Debug, "stop", Recording.stop)
    monkeypatch.setattr(Debug, "log", Recording.log, raising=False)

    async def test() -> None:
        async with running(Site(tmp_path, WHOAMI.replace("whoami", "debug\nwhoami"))) as site:
            site.write(WHOAMI)
            assert await site.server.reload()
            assert Recording.log == ["start", "stop"]
            # What is left is the server's own.
            assert {task.get_name() for task in other_tasks()} <= {"query log"}

    run(test())
    assert "plugin/debug did not stop cleanly" in caplog.text


HTTP = ". {\nbind 127.0.0.1\nhealth 127.0.0.1:HTTP\nready 127.0.0.1:HTTP\nprometheus 127.0.0.1:HTTP\nwhoami\n}\n"


def test_http_sockets_stay_open_through_a_reload(tmp_path: Path) -> None:
    async def test() -> None:
        http = free_port()
        text = HTTP.replace("HTTP", str(http))
        async with running(Site(tmp_path, text)) as site:
            (listener,) = site.server._http._open.values()
            site.write(text.replace("whoami", "whoami\nlog"))
            assert await site.server.reload()
            assert list(site.server._http._open.values()) == [listener]
            for path in ("/health", "/ready", "/metrics"):
                assert await fetch(http, path) == "HTTP/1.1 200 OK"
            site.write(WHOAMI)
            assert await site.server.reload()
            assert site.server._http.bound == {}
            site.write(text.replace("whoami\n", "whoami x\n"))
            assert not await site.server.reload()
            assert site.server._http.bound == {}

    run(test())


def test_reload_that_fails_late_gives_the_pages_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The new pages are served before the tables are made; the stopped plugins must not go on answering them."""

    async def test() -> None:
        http, other = free_port(), free_port()
        text = f". {{\nbind 127.0.0.1\nready 127.0.0.1:{http}\nwhoami\n}}\n"
        async with running(Site(tmp_path, text)) as site:
            (ready,) = [each for each in site.server.configuration.plugins if each.name == "ready"]

            def fail(*args: object) -> None:
                raise RuntimeError("a fault of the server")

            site.write(text.replace("whoami", f"health 127.0.0.1:{other}\nwhoami"))
            with monkeypatch.context() as patched:
                patched.setattr(lifecycle, "make_processors", fail)
                assert not await site.server.reload()
            assert is_free(other)
            with monkeypatch.context() as patched:
                patched.setattr(ready, "answer", None)
                patched.setattr(ready, "_runtime", None)
                assert await fetch(http, "/ready") == "HTTP/1.1 503 Service Unavailable"
            assert site.failures == 1

    run(test())


@pytest.mark.parametrize(
    ("kind", "change"),
    [
        pytest.param("loop", "", id="loop"),
        pytest.param("workers", "", id="workers", marks=NEEDS_NATIVE),
        pytest.param("workers", "multisocket 3", id="more-workers", marks=NEEDS_NATIVE),
    ],
)
@pytest.mark.parametrize("what", ["udp", "tcp"])
def test_reload_whose_sockets_do_not_start_changes_nothing(
    kind: str, change: str, what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thread too many, for one."""

    async def test() -> None:
        other = free_port()
        async with running(Site(tmp_path, WHOAMI)) as site:
            new = WHOAMI.replace(". {", "example.com {").replace("whoami", f"{change}\nwhoami")
            site.write(new + f".:{other} {new[new.index('{') :]}")
            (before,) = [each.sockets for each in site.server.listeners]
            configuration = site.server.configuration
            kinds: list[Any] = [TcpServer] if what == "tcp" else UdpListener.__subclasses__()

            def fail(self: Any) -> None:
                raise RuntimeError("can't start new thread")

            with monkeypatch.context() as patched:
                for each in kinds:
                    patched.setattr(each, "start", fail)
                assert not await site.server.reload()
            assert site.failures == 1
            assert site.server.configuration is configuration
            assert [each.sockets for each in site.server.listeners] == [before]
            assert is_free(other)
            for _ in range(2):
                for reply in (await site.ask(), await site.ask_tcp()):
                    assert reply.startswith(NOERROR)
            assert await site.server.reload()
            assert [await site.ask(), await site.ask_tcp()] == [REFUSED, REFUSED]
            assert (await site.ask(port=other)).startswith(NOERROR)

    with serving_with(kind):
        run(test())


def test_a_stop_that_ends_as_cancelled_stops_the_next_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has waited for what it cancelled itself; nobody has cancelled the reload."""
    stopped: list[str] = []

    async def cancelled(self: Plugin) -> None:
        raise asyncio.CancelledError

    async def stop(self: Plugin) -> None:
        stopped.append(self.name)

    monkeypatch.setattr(Debug, "stop", cancelled)
    monkeypatch.setattr(Whoami, "stop", stop)

    async def test() -> None:
        async with running(Site(tmp_path, WHOAMI.replace("whoami", "debug\nwhoami"))) as site:
            assert await site.server.reload()
            assert stopped == ["whoami"]

    run(test())


def test_tables_of_the_old_configuration_go(tmp_path: Path) -> None:
    """Though nothing collects what cli/launch.py froze after the start, and nobody scrapes."""
    text = f". {{\nbind 127.0.0.1\nprometheus 127.0.0.1:0\n{KUBERNETES}\n}}\n"

    async def test() -> None:
        site = ClusterServer(tmp_path, text, cluster_objects(service("default/web", "10.96.0.1")))
        async with site:
            assert site.server._runtime is not None
            (processor,) = site.server._runtime.processors.values()
            keeper = weakref.ref(processor.writer)
            del processor
            gc.disable()
            try:
                assert await site.server.reload()
                site.server.metrics.fold()  # a little later write_logs() does it
                await until(lambda: keeper() is None, "the table given back")
            finally:
                gc.enable()

    run(test())


@pytest.mark.parametrize("kind", KINDS)
def test_what_an_address_answers_until_it_closes_is_counted_and_logged(
    kind: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A reload takes an address away while something is in work there; the table goes on, and so does a scraper."""
    upstream = socket.socket(type=socket.SOCK_DGRAM)
    upstream.bind(("127.0.0.1", 0))
    upstream.setblocking(False)
    leaving = free_port()
    stays = ".:PORT {\nbind 127.0.0.1\nprometheus 127.0.0.1:HTTP\nwhoami\n}\n"
    goes = (
        f".:{leaving} {{\nbind 127.0.0.1\nprometheus 127.0.0.1:HTTP\nlog\n{KUBERNETES}"
        f"forward . 127.0.0.1:{upstream.getsockname()[1]}\n}}\n"
    )
    known, there = "web.default.svc.cluster.local.", ("127.0.0.1", leaving)

    async def test() -> None:
        site = ClusterServer(
            tmp_path, stays + goes, cluster_objects(service("default/web", "10.96.0.1"))
        )
        loop = asyncio.get_running_loop()
        async with site, TcpClient(there) as tcp:
            with UdpClient() as udp, UdpClient() as waiting:
                await udp.ask(ask(known), there)
                waiting.sock.sendto(ask("www.example.org."), there)
                query, forwarder = await loop.sock_recvfrom(upstream, 512)
                site.write(stays)
                assert await site.server.reload()
                for number in range(6):
                    site.server.metrics.fold()
                    await udp.ask(ask(known, query_id=number), there)
                    tcp.send(ask(known, query_id=number))
                    await tcp.receive()
                upstream.sendto(query[:2] + b"\x81\x83" + query[4:], forwarder)
                await loop.sock_recv(waiting.sock, 512)
                await until(lambda: not len(site.server._retiring), "the address given up")
                counted = site.value("coredns_dns_requests_total")
                looked_up = site.value("hsdns_table_lookups_total")
        lines = [line for line in caplog.messages if known in line]
        assert counted == {
            (f"dns://127.0.0.1:{leaving}", ".", "", "udp", "1", "A"): 8,
            (f"dns://127.0.0.1:{leaving}", ".", "", "tcp", "1", "A"): 6,
        }
        assert len(lines) == 13
        assert looked_up[f"dns://127.0.0.1:{leaving}", "hit"] == 12

    try:
        with serving_with(kind):
            run(test(), "asyncio")  # uvloop has no sock_recvfrom()
    finally:
        upstream.close()


# --- stop ---


class Lameduck:
    """Stands in for asyncio.sleep in the lameduck period, which the test ends."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.seconds: list[float] = []
        self.over = asyncio.Event()
        real: Callable[[float], Coroutine[Any, Any, None]] = asyncio.sleep

        async def sleep(seconds: float) -> None:
            if seconds < 1:
                await real(seconds)
                return
            self.seconds.append(seconds)
            await self.over.wait()

        monkeypatch.setattr(asyncio, "sleep", sleep)


@contextlib.contextmanager
def default_signals(server: Server) -> Any:
    """Let the server handle signals, and take that back."""
    numbers = (
        signal.SIGTERM, signal.SIGINT, signal.SIGQUIT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2,
    )  # fmt: skip
    before = {number: signal.getsignal(number) for number in numbers}
    server.handle_signals()
    try:
        yield
    finally:
        for number, handler in before.items():
            asyncio.get_running_loop().remove_signal_handler(number)
            signal.signal(number, handler)


@pytest.mark.parametrize("loop", LOOPS)
def test_sigterm(
    loop: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """/ready says no at once, answers go on, then the process ends with 0."""

    async def test() -> None:
        http = free_port()
        text = HTTP.replace("HTTP", str(http))
        site = Site(
            tmp_path,
            text.replace(
                f"health 127.0.0.1:{http}", f"health 127.0.0.1:{http} {{\nlameduck 30s\n}}"
            ),
        )
        lameduck = Lameduck(monkeypatch)
        caplog.set_level(logging.INFO, "hsdns")
        monkeypatch.setattr(Health, "_watch", lambda *_: asyncio.Event().wait())
        with default_signals(site.server):
            await site.server.start()
            served = asyncio.create_task(site.server.run())
            assert await fetch(http, "/ready") == "HTTP/1.1 200 OK"
            os.kill(os.getpid(), signal.SIGTERM)
            await until(lambda: bool(lameduck.seconds), "the lameduck period")
            assert lameduck.seconds == [30]
            assert "plugin/health: Going into lameduck mode for 30s" in caplog.messages
            assert await fetch(http, "/ready") == "HTTP/1.1 503 Service Unavailable"
            assert await fetch(http, "/health") == "HTTP/1.1 200 OK"
            assert (await site.ask()).startswith(NOERROR)
            assert (await site.ask_tcp()).startswith(NOERROR)
            assert not await site.server.reload()
            assert not served.done()
            lameduck.over.set()
            assert await served == 0
        assert is_free(site.port)
        assert is_free(http)

    run(test(), loop)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGQUIT])
def test_a_signal_ends_the_wait_for_the_cluster(
    number: signal.Signals, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is served then, the lameduck period is for nobody, and what waited was told to stop."""
    stopped: list[str] = []

    async def start(self: Whoami, runtime: Any) -> None:
        os.kill(os.getpid(), number)
        await asyncio.Event().wait()

    async def stop(self: Whoami) -> None:
        stopped.append(self.name)

    monkeypatch.setattr(Whoami, "start", start)
    monkeypatch.setattr(Whoami, "stop", stop)

    async def test() -> None:
        http = free_port()
        corefile = WHOAMI.replace("whoami", f"health 127.0.0.1:{http} {{\nlameduck 30s\n}}\nwhoami")
        site = Site(tmp_path, corefile)
        lameduck = Lameduck(monkeypatch)
        with default_signals(site.server):
            await site.server.start()
            assert not site.server.is_serving
            assert await site.server.run() == 0
        assert (stopped, lameduck.seconds) == (["whoami"], [])
        assert is_free(site.port)
        assert is_free(http)

    run(test())


@pytest.mark.parametrize(
    ("numbers", "status"),
    [
        pytest.param([signal.SIGTERM], 0, id="term"),
        pytest.param([signal.SIGINT], 0, id="int"),
        pytest.param([signal.SIGINT, signal.SIGINT], 2, id="int-twice"),
        pytest.param([signal.SIGTERM, signal.SIGINT], 2, id="term-then-int"),
        pytest.param([signal.SIGTERM, signal.SIGTERM], 0, id="term-twice"),
        pytest.param([signal.SIGQUIT], 0, id="quit"),
        pytest.param([signal.SIGTERM, signal.SIGQUIT], 0, id="term-then-quit"),
        pytest.param([signal.SIGHUP, signal.SIGUSR2, signal.SIGTERM], 0, id="hup-and-usr2-are-ignored"),
    ],
)  # fmt: skip
def test_signals(
    numbers: list[signal.Signals],
    status: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def test() -> None:
        http = free_port()
        caplog.set_level(logging.INFO, "hsdns")
        corefile = WHOAMI.replace("whoami", f"health 127.0.0.1:{http} {{\nlameduck 30s\n}}\nwhoami")
        site = Site(tmp_path, corefile)
        lameduck = Lameduck(monkeypatch)
        monkeypatch.setattr(Health, "_watch", lambda *_: asyncio.Event().wait())
        with default_signals(site.server):
            await site.server.start()
            served = asyncio.create_task(site.server.run())
            for number in numbers:
                os.kill(os.getpid(), number)
                if number in (signal.SIGTERM, signal.SIGINT):
                    await until(
                        lambda: bool(lameduck.seconds) or served.done(), "the lameduck period"
                    )
                elif number != signal.SIGQUIT:
                    assert (await site.ask()).startswith(NOERROR)
            if status == 0 and signal.SIGQUIT not in numbers:
                lameduck.over.set()
            async with asyncio.timeout(5):
                assert await served == status
        assert is_free(site.port)
        quits = "SIGQUIT: Quitting process immediately" in caplog.messages
        assert quits is (signal.SIGQUIT in numbers)
        assert ("SIGINT: Force quit" in caplog.messages) is (status == 2)

    run(test())


def test_sigusr1_reloads(tmp_path: Path) -> None:
    async def test() -> None:
        site = Site(tmp_path, WHOAMI)
        with default_signals(site.server):
            async with running(site):
                before = site.server.configuration
                os.kill(os.getpid(), signal.SIGUSR1)
                await until(lambda: site.server.configuration is not before, "a reload")
                assert (await site.ask()).startswith(NOERROR)

    run(test())


def test_what_is_in_work_is_answered_before_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test() -> None:
        go_on = asyncio.Event()

        async def wait(self: Handler, request: Request, next: Next) -> Reply:  # noqa: A002 - the word of the plugin interface
            await go_on.wait()
            return Reply(aa=True)

        monkeypatch.setattr(Whoami, "handle", wait)
        monkeypatch.setattr(Whoami, "waits", True, raising=False)
        site = Site(tmp_path, WHOAMI)
        await site.server.start()
        served = asyncio.create_task(site.server.run())
        with UdpClient() as udp:
            async with TcpClient(("127.0.0.1", site.port)) as tcp:
                udp.sock.sendto(query().to_wire(), ("127.0.0.1", site.port))
                tcp.send(query().to_wire())
                servers: list[UdpListener | TcpServer] = [
                    *site.server.listeners.udp.values(),
                    *(each.tcp for each in site.server.listeners),
                ]
                await until(lambda: all(server.pending for server in servers), "queries in work")
                await site.server.shut_down()
                go_on.set()
                assert summary((await udp.receive())[0]).startswith(NOERROR)
                assert summary(await tcp.receive()).startswith(NOERROR)
                assert await tcp.has_ended()
        assert await served == 0

    run(test())


def test_reload_cancels_what_never_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And neither the count of what is in work nor the connection goes on as if it were awaited."""
    monkeypatch.setattr(lifecycle, "DRAIN_TIMEOUT", 0.0)

    async def test() -> None:
        async def wait(self: Handler, request: Request, next: Next) -> Reply:  # noqa: A002 - the word of the plugin interface
            await asyncio.Event().wait()
            return Reply()

        monkeypatch.setattr(Whoami, "handle", wait)
        monkeypatch.setattr(Whoami, "waits", True, raising=False)
        async with running(Site(tmp_path, WHOAMI)) as site:
            (listener,) = site.server.listeners
            with UdpClient() as udp:
                async with TcpClient(("127.0.0.1", site.port)) as tcp:
                    udp.sock.sendto(query().to_wire(), ("127.0.0.1", site.port))
                    tcp.send(query().to_wire())
                    await until(lambda: listener.pending == 2, "queries in work")
                    assert await site.server.reload()
                    await until(lambda: listener.pending == 0, "no query in work")

    run(test())


class Gated:
    """Takes the place of whoami's start() and stop(): the second start waits until it is let on."""

    def __init__(self) -> None:
        self.entered, self.go_on = asyncio.Event(), asyncio.Event()
        self.started: list[Plugin] = []
        self.stopped: list[Plugin] = []

    def install(self, monkeypatch: pytest.MonkeyPatch) -> None:
        async def start(plugin: Plugin, runtime: Runtime) -> None:
            self.started.append(plugin)
            if len(self.started) == 2:
                self.entered.set()
                await self.go_on.wait()

        async def stop(plugin: Plugin) -> None:
            self.stopped.append(plugin)

        monkeypatch.setattr(Whoami, "start", start)
        monkeypatch.setattr(Whoami, "stop", stop)


@pytest.mark.parametrize("has_changed_over", [False, True])
@pytest.mark.parametrize("loop", LOOPS)
def test_sigterm_during_a_reload(
    loop: str, has_changed_over: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The reload ends first, one way or the other; nothing of either configuration is left."""

    async def test() -> None:
        gate = Gated()
        gate.install(monkeypatch)
        site, other = Site(tmp_path, WHOAMI), free_port()
        await site.server.start()
        served = asyncio.create_task(site.server.run())
        site.write(WHOAMI.replace(". {", f". .:{other} {{"))
        reloading = asyncio.create_task(site.server.reload())
        await gate.entered.wait()
        if has_changed_over:
            gate.go_on.set()
            await until(lambda: site.server.configuration.plugins[-1] in gate.started[1:], "new")
        await site.server.shut_down()
        assert await served == 0
        gate.go_on.set()
        (ended,) = await asyncio.gather(reloading, return_exceptions=True)
        assert ended is True if has_changed_over else isinstance(ended, asyncio.CancelledError)
        assert sorted(map(id, gate.stopped)) == sorted(map(id, gate.started))
        assert other_tasks() == set()
        assert is_free(site.port)
        assert is_free(other)

    run(test(), loop)


@pytest.mark.parametrize("at_once", [False, True], ids=["time-is-over", "second-interrupt"])
def test_what_never_ends_is_not_waited_for(
    at_once: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listeners, "DRAIN_TIMEOUT", 600.0 if at_once else 0.0)
    monkeypatch.setattr(listeners, "LINGER_TIMEOUT", 0.0)

    async def test() -> None:
        async def wait(self: Handler, request: Request, next: Next) -> Reply:  # noqa: A002 - the word of the plugin interface
            await asyncio.Event().wait()
            return Reply()

        monkeypatch.setattr(Whoami, "handle", wait)
        monkeypatch.setattr(Whoami, "waits", True, raising=False)
        site = Site(tmp_path, WHOAMI)
        with default_signals(site.server):
            await site.server.start()
            served = asyncio.create_task(site.server.run())
            with UdpClient() as udp:
                udp.sock.sendto(query().to_wire(), ("127.0.0.1", site.port))
                (server,) = site.server.listeners.udp.values()
                await until(lambda: bool(server.pending), "a query in work")
                await site.server.shut_down()
                if at_once:
                    os.kill(os.getpid(), signal.SIGINT)
                async with asyncio.timeout(5):
                    assert await served == (2 if at_once else 0)
        assert other_tasks() == set()

    run(test())


def test_plugin_that_fails_ends_the_process(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def test() -> int:
        site = Site(tmp_path, WHOAMI)
        await site.server.start()
        assert site.server._runtime is not None
        site.server._runtime.fail("a loop was found")
        return await site.server.run()

    assert run(test()) == 1
    assert ("hsdns.server", logging.CRITICAL, "a loop was found") in caplog.record_tuples


# --- what is counted ---


def broken(self: Handler, request: Request, next: Next) -> Any:  # noqa: A002 - the word of the plugin interface
    raise RuntimeError("broken")


@pytest.mark.parametrize("debugs", [False, True])
def test_error_in_a_handler(debugs: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It costs one query and is counted; with debug it ends the process."""
    monkeypatch.setattr(Whoami, "handle", broken)

    async def test() -> None:
        site = Site(tmp_path, WHOAMI.replace("whoami", "debug\nwhoami") if debugs else WHOAMI)
        async with running(site):
            assert await site.ask() == "1 SERVFAIL qr rd |  |  | "
            assert site.server.metrics.counter("coredns_panics_total", "").values == {(): 1}
            if debugs:
                assert await site.server.run() == 1
            else:
                assert await site.ask() == "1 SERVFAIL qr rd |  |  | "

    run(test())


def test_refused_queries_are_counted_as_dropped(tmp_path: Path) -> None:
    async def test() -> None:
        site = Site(tmp_path, WHOAMI.replace(". {", "example.net {"))
        async with running(site):
            assert await site.ask("example.org") == REFUSED
            (labels,) = site.server.metrics.counter(
                "coredns_dns_requests_total",
                "",
            ).values
            assert labels == (f"dns://127.0.0.1:{site.port}", "dropped", "", "udp", "1", "A")

    run(test())


def test_plugins_are_shown_for_a_block_s_first_key(tmp_path: Path) -> None:
    async def test() -> None:
        http = free_port()
        block = f"10.0.0.0/15 b.org {{\nbind 127.0.0.1\nprometheus 127.0.0.1:{http}\nwhoami\n}}\n"
        async with running(Site(tmp_path, block)) as site:
            shown = site.server.metrics.gauge("coredns_plugin_enabled", "").values
            server = f"dns://127.0.0.1:{site.port}"
            names = ("prometheus", "whoami")
            assert set(shown) == {(server, "0.10.in-addr.arpa.", "", name) for name in names}

    run(test())


def test_plugins_of_a_chain_are_shown(tmp_path: Path) -> None:
    async def test() -> None:
        http = free_port()
        site = Site(
            tmp_path,
            f"a.org {{\nbind 127.0.0.1\nprometheus 127.0.0.1:{http}\nerrors\nwhoami\n}}\n"
            "b.org {\nbind 127.0.0.1\nwhoami\n}\n",
        )
        async with running(site):
            shown = site.server.metrics.gauge("coredns_plugin_enabled", "").values
            server = f"dns://127.0.0.1:{site.port}"
            assert set(shown) == {
                (server, "a.org.", "", name) for name in ("prometheus", "errors", "whoami")
            }
            await site.ask("a.org")
            responses = site.server.metrics.counter("coredns_dns_responses_total", "").values
            assert set(responses) == {(server, "a.org.", "", "NOERROR", "errors")}

    run(test())


@pytest.mark.parametrize(("word", "level"), [("", logging.INFO), ("debug", logging.DEBUG)])
def test_log_level(word: str, level: int, tmp_path: Path) -> None:
    async def test() -> int:
        async with running(Site(tmp_path, WHOAMI.replace("whoami", f"{word}\nwhoami"))):
            return logging.getLogger("hsdns").level

    assert run(test()) == level


# --- the answer tables ---

KEPT = f".:PORT {{\nbind 127.0.0.1\nprometheus 127.0.0.1:HTTP\nloadbalance\n{KUBERNETES}}}\n"
WEB = "web.default.svc.cluster.local."
OBJECTS = cluster_objects(service("default/web", "10.96.0.1"))


class Load:
    """Threads that ask again and again; what is not answered raises."""

    def __init__(self, address: tuple[str, int]) -> None:
        self.answered = 0
        self.over = threading.Event()
        self._address = address

    def ask(self, way: str, wanted: int) -> int:
        """Ask at least so many questions, and until it is over; return how many were answered."""
        names = (WEB, "nope.cluster.local.", "1.0.96.10.in-addr.arpa. PTR", f"x.{WEB} TXT")
        count = 0
        with Asker(self._address, way) as asker:
            while count < wanted or not self.over.is_set():
                assert asker.ask(names[count % len(names)])[3] & 15 in (0, 3)
                count += 1
                self.answered += 1
        return count


@pytest.mark.parametrize("kind", KINDS)
def test_reload_under_load_loses_no_query(kind: str, tmp_path: Path) -> None:
    """At least 2,000 queries in three ways while tables, chains and plugins are exchanged; each is counted once."""

    async def test() -> None:
        async with ClusterServer(tmp_path, KEPT, OBJECTS, workers=2) as site:
            load = Load(site.address)
            asking = [
                asyncio.create_task(asyncio.to_thread(load.ask, way, wanted))
                for way, wanted in (("udp", 800), ("udp", 800), ("tcp", 200), ("unusual", 200))
            ]
            for turn in range(1, 6):
                before = load.answered
                await until(lambda before=before: load.answered > before + 100, "queries answered")  # type: ignore[misc]  # mypy cannot infer a default's type
                site.write(KEPT.replace("pods insecure", f"pods insecure\nttl {turn}"))
                assert await site.server.reload()
            load.over.set()
            answered = sum(await asyncio.gather(*asking))
            assert answered >= 2_000
            assert site.total("coredns_dns_requests_total") == answered
            assert site.total("coredns_reload_failed_total") == 0
            assert site.total("hsdns_udp_queue_drops_total") == 0
            assert site.hits() > answered / 4

    with serving_with(kind):
        run(test())


@pytest.mark.parametrize("kind", KINDS)
def test_sigterm_while_busy(kind: str, tmp_path: Path) -> None:
    """All threads end, whatever arrives meanwhile."""

    def flood(address: tuple[str, int], over: threading.Event) -> None:
        wires = [ask(WEB), ask("nope.cluster.local."), ask("www.example.org.")]
        with socket.socket(type=socket.SOCK_DGRAM) as sock:
            while not over.is_set():
                for wire in wires:
                    with contextlib.suppress(OSError):  # nobody listens any more
                        sock.sendto(wire, address)

    async def test() -> None:
        over = threading.Event()
        site = ClusterServer(tmp_path, KEPT, OBJECTS, workers=2)
        with default_signals(site.server):
            await site.server.start()
            served = asyncio.create_task(site.server.run())
            flooding = asyncio.create_task(asyncio.to_thread(flood, site.address, over))
            try:
                await until(lambda: site.hits() > 200, "queries answered")
                os.kill(os.getpid(), signal.SIGTERM)
                async with asyncio.timeout(10):
                    assert await served == 0
            finally:
                over.set()
                await flooding
        names = [thread.name for thread in threading.enumerate()]
        assert [name for name in names if name.startswith("udp worker")] == []
        assert is_free(site.port)

    with serving_with(kind):
        run(test())


@pytest.mark.parametrize("kind", KINDS)
def test_claims_that_change_while_listeners_open(kind: str, tmp_path: Path) -> None:
    """The new listener has no sockets behind it yet; its table is the newest all the same."""

    async def test() -> None:
        async with ClusterServer(tmp_path, KEPT, OBJECTS) as site:
            real = TcpServer.start
            other = free_port()

            async def start(server: TcpServer) -> None:
                assert site.server._opening is not None
                site.server._opening.names_answered_first_changed()
                await real(server)

            site.write(KEPT.replace(".:PORT", f".:PORT .:{other} .:{free_port()}"))
            with patch.object(TcpServer, "start", start):
                assert await site.server.reload()
            runtime = site.server._runtime
            assert runtime is not None
            for listen, udp in site.server.listeners.udp.items():
                assert udp.processor is runtime.processors[listen.server]
                assert site.server.listeners[listen].tcp.processor is udp.processor
            for port in (site.port, other):
                for _ in range(2):
                    with UdpClient() as client:
                        wire, _ = await client.ask(ask(WEB), ("127.0.0.1", port))
                        assert summary(wire).startswith("7 NOERROR")

    with serving_with(kind):
        run(test())


@pytest.mark.parametrize("only_if_changed", [False, True], ids=["signal", "plugin"])
def test_reload_during_the_start_comes_after_it(
    only_if_changed: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the file became while a plugin waited for the cluster would else never be served."""
    entered, go_on = asyncio.Event(), asyncio.Event()

    async def start(self: Plugin, runtime: Runtime) -> None:
        entered.set()
        await go_on.wait()

    monkeypatch.setattr(Whoami, "start", start)

    async def test() -> None:
        site = Site(tmp_path, WHOAMI)
        starting = asyncio.create_task(site.server.start())
        await entered.wait()
        site.write(WHOAMI.replace(". {", "example.com {"))
        reloading = asyncio.create_task(site.server.reload(only_if_changed=only_if_changed))
        asyncio.get_running_loop().call_soon(go_on.set)  # after the reload has begun
        await starting
        try:
            assert await reloading
            assert await site.ask() == REFUSED
            assert site.failures == 0
        finally:
            await site.server.close()

    run(test())


def test_reload_during_a_start_that_fails_does_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    entered, go_on = asyncio.Event(), asyncio.Event()

    async def start(self: Plugin, runtime: Runtime) -> None:
        entered.set()
        await go_on.wait()
        raise OSError("a fault of the plugin")

    monkeypatch.setattr(Whoami, "start", start)

    async def test() -> None:
        site = Site(tmp_path, WHOAMI)
        starting = asyncio.create_task(site.server.start())
        await entered.wait()
        reloading = asyncio.create_task(site.server.reload())
        asyncio.get_running_loop().call_soon(go_on.set)  # after the reload has begun
        with pytest.raises(StartError, match="a fault of the plugin"):
            await starting
        assert not await reloading
        assert other_tasks() == set()
        assert is_free(site.port)

    run(test())
    assert caplog.messages == []


def test_sigterm_while_a_failed_reload_stops_what_it_began(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every plugin that has started is stopped, and so are its tasks."""
    entered, go_on = asyncio.Event(), asyncio.Event()
    ended: list[str] = []

    async def start(self: Plugin, runtime: Runtime) -> None:
        runtime.spawn(asyncio.Event().wait(), "forever")

    async def stop(self: Plugin) -> None:
        entered.set()
        await go_on.wait()
        ended.append(self.name)

    async def fail(self: Plugin, runtime: Runtime) -> None:
        raise RuntimeError("a fault of the plugin")

    async def test() -> None:
        site = Site(tmp_path, WHOAMI)
        await site.server.start()
        monkeypatch.setattr(Debug, "start", start)
        monkeypatch.setattr(Debug, "stop", stop)
        monkeypatch.setattr(Whoami, "start", fail)
        site.write(WHOAMI.replace("whoami", "debug\nwhoami"))
        reloading = asyncio.create_task(site.server.reload())
        await entered.wait()
        asyncio.get_running_loop().call_soon(go_on.set)  # after the end has begun
        await site.server.close()
        assert (await asyncio.gather(reloading, return_exceptions=True))[0] is False
        assert ended == ["debug"]
        assert other_tasks() == set()

    run(test())


def test_signal_ends_an_address_that_waits_for_its_last_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reload took it away; SIGQUIT is not to wait for it."""
    monkeypatch.setattr(listeners, "DRAIN_TIMEOUT", 600.0)
    monkeypatch.setattr(lifecycle, "DRAIN_TIMEOUT", 600.0)

    async def wait(self: Handler, request: Request, next: Next) -> Reply:  # noqa: A002 - the word of the plugin interface
        await asyncio.Event().wait()
        return Reply()

    monkeypatch.setattr(Whoami, "handle", wait)
    monkeypatch.setattr(Whoami, "waits", True, raising=False)

    async def test() -> None:
        other = free_port()
        site = Site(tmp_path, WHOAMI.replace(". {", f". .:{other} {{"))
        with default_signals(site.server), UdpClient() as udp:
            await site.server.start()
            served = asyncio.create_task(site.server.run())
            udp.sock.sendto(query().to_wire(), ("127.0.0.1", other))
            asked = site.server.listeners.udp[ListenAddress("127.0.0.1", other)]
            await until(lambda: bool(asked.pending), "a query in work")
            site.write(WHOAMI)
            assert await site.server.reload()
            os.kill(os.getpid(), signal.SIGQUIT)
            async with asyncio.timeout(5):
                assert await served == 0
        assert other_tasks() == set()

    run(test())


def test_claims_that_change_while_a_reload_opens_lose_no_count_where_it_fails(
    tmp_path: Path,
) -> None:
    """What is served goes on with its own tables until the new sockets are there, and those are counted."""

    async def test() -> None:
        other = free_port()
        text = KEPT.replace(".:PORT", f".:PORT .:{other}")
        async with ClusterServer(tmp_path, text, OBJECTS) as site:
            configuration = site.server.configuration

            async def start(server: TcpServer) -> None:
                opening().names_answered_first_changed()
                assert site.server.configuration is configuration
                for number in range(4):
                    site.server.metrics.fold()
                    with UdpClient() as client:
                        await client.ask(ask(WEB, query_id=number), ("127.0.0.1", other))
                raise RuntimeError("can't start new thread")

            def opening() -> Any:
                return site.server._opening

            site.write(KEPT.replace(".:PORT", f".:PORT .:{free_port()}"))
            with patch.object(TcpServer, "start", start):
                assert not await site.server.reload()
            assert site.value("coredns_dns_requests_total") == {
                (f"dns://127.0.0.1:{other}", ".", "", "udp", "1", "A"): 4
            }

    with serving_with("loop"):
        run(test())


def test_claims_that_change_while_a_reload_opens_count_no_line_twice(tmp_path: Path) -> None:
    async def test() -> None:
        other = free_port()
        text = KEPT.replace(".:PORT", f".:PORT .:{other}")
        async with ClusterServer(tmp_path, text, OBJECTS) as site:
            leaving = site.server.listeners[ListenAddress("127.0.0.1", other)].processor.writer
            assert leaving is not None
            leaving.table.log.dropped = 5
            real = TcpServer.start

            async def start(server: TcpServer) -> None:
                await real(server)
                site.server._opening.names_answered_first_changed()  # type: ignore[union-attr]  # it is one, here
                site.server.metrics.fold()

            site.write(KEPT.replace(".:PORT", f".:PORT .:{free_port()}"))
            with patch.object(TcpServer, "start", start):
                assert await site.server.reload()
            await until(lambda: not len(site.server._retiring), "the address given up")
            assert site.total("hsdns_log_drops_total") == 5

    with serving_with("loop"):
        run(test())


def test_address_that_does_not_end_well_holds_no_reload_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The fault is logged, the old plugins stop, and the next reload goes its way."""
    stopped: list[Plugin] = []

    async def stop(self: Plugin) -> None:
        stopped.append(self)

    def fail(server: TcpServer) -> None:
        raise RuntimeError("a fault of the server")

    monkeypatch.setattr(Whoami, "stop", stop)

    async def test() -> None:
        text = WHOAMI.replace(". {", f". .:{free_port()} {{")
        async with running(Site(tmp_path, text)) as site:
            old = [each for each in site.server.configuration.plugins if each.name == "whoami"]
            with monkeypatch.context() as patched:
                patched.setattr(TcpServer, "end", fail)
                site.write(WHOAMI)
                assert await site.server.reload()
                await until(lambda: not len(site.server._retiring), "the address given up")
            assert stopped == old
            assert "retire ended with an error" in caplog.messages
            async with asyncio.timeout(5):
                assert await site.server.reload()

    run(test())


@pytest.mark.parametrize("kind", KINDS)
def test_counts_of_a_listener_that_closes_are_kept(kind: str, tmp_path: Path) -> None:
    async def test() -> None:
        other = free_port()
        text = KEPT.replace(".:PORT", f".:PORT .:{other}")
        async with ClusterServer(tmp_path, text, OBJECTS) as site:
            for number in range(5):
                with UdpClient() as client:
                    await client.ask(ask(WEB, query_id=number), ("127.0.0.1", other))
            closing = site.server.listeners.udp[ListenAddress("127.0.0.1", other)]
            closing.statistics = lambda: (3, {1: 2})  # type: ignore[method-assign]  # as if that had happened
            site.write(KEPT)
            assert await site.server.reload()
            assert site.total("coredns_dns_requests_total") == 5
            lookups = site.value("hsdns_table_lookups_total")
            assert lookups[f"dns://127.0.0.1:{other}", "hit"] == 4
            assert site.total("hsdns_udp_queue_drops_total") == 3
            assert site.value("hsdns_udp_send_errors_total") == {("EPERM",): 2}

    with serving_with(kind):
        run(test())


@pytest.mark.parametrize("kind", KINDS)
def test_workers_share_a_port(kind: str, tmp_path: Path) -> None:
    """Where there are none the loop has one socket."""

    async def test() -> None:
        async with ClusterServer(tmp_path, KEPT, OBJECTS, workers=3) as site:
            (udp,) = site.server.listeners.udp.values()
            assert len(udp.sockets) == (1 if kind == "loop" else 3)
            (labels,) = site.value("hsdns_fastpath_info", "gauge")
            assert labels == ("python" if kind == "loop" else "rust",)

    with serving_with(kind):
        run(test())


@NEEDS_NATIVE
@pytest.mark.parametrize("is_patient", [True, False])
def test_another_number_of_workers_loses_no_query(
    is_patient: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel gives datagrams to the old sockets, too, until they close; the new ones' loop answers these."""
    monkeypatch.setattr(listeners, "DRAIN_TIMEOUT", 20.0 if is_patient else 0.0)
    monkeypatch.setattr(listeners, "LINGER_TIMEOUT", 20.0)
    text = WHOAMI.replace("whoami", "multisocket 2\nwhoami")

    async def test() -> None:
        go_on = asyncio.Event()

        async def wait(self: Handler, request: Request, next: Next) -> Reply:  # noqa: A002 - the word of the plugin interface
            await go_on.wait()
            return Reply(rcode=3)

        monkeypatch.setattr(Whoami, "handle", wait)
        monkeypatch.setattr(Whoami, "waits", True, raising=False)
        async with running(Site(tmp_path, text)) as site:
            with ExitStack() as stack:
                held, *others = [stack.enter_context(UdpClient()) for _ in range(33)]
                held.sock.sendto(query().to_wire(), ("127.0.0.1", site.port))
                (old,) = site.server.listeners.udp.values()
                await until(lambda: old.pending == 1, "a query in work")
                site.write(text.replace("multisocket 2", "multisocket 3"))
                assert await site.server.reload()
                (new,) = site.server.listeners.udp.values()
                assert new is not old
                for client in others:  # from many ports, so each socket gets some
                    client.sock.sendto(query().to_wire(), ("127.0.0.1", site.port))
                if is_patient:
                    await until(lambda: new.pending == len(others), "the heir asked")
                assert old.pending == 1
                go_on.set()
                for client in (held, *others):
                    reply = summary((await client.receive())[0])
                    assert reply == "1 NXDOMAIN qr rd |  |  | "
                await until(lambda: old.sock.fileno() == -1, "the old sockets closed")

    with serving_with("workers"):
        run(test())


# --- no query is lost ---


class Asked:
    """Fifty connections, and as many UDP clients, that ask as fast as they are answered; each reply is looked at."""

    CONNECTIONS = 50

    def __init__(self, address: tuple[str, int]) -> None:
        self.address = address
        self.answered = 0
        self.over = False

    async def over_udp(self) -> None:
        with UdpClient() as client:
            number = 0
            while not self.over:
                number = number % 65_535 + 1
                wire, _ = await client.ask(ask(WEB, query_id=number), self.address)
                self.note(wire, number)

    async def over_tcp(self) -> None:
        async with TcpClient(self.address) as client:
            number = 0
            while not self.over:
                number = number % 65_535 + 1
                client.send(ask(WEB, query_id=number))
                self.note(await client.receive(), number)

    async def until(self, count: int) -> None:
        """Wait until so many were answered."""
        await until(lambda: self.answered > count, "queries answered")

    def note(self, wire: bytes, number: int) -> None:
        assert (int.from_bytes(wire[:2], "big"), wire[3] & 15) == (number, 0)
        self.answered += 1


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_twenty_reloads_and_one_sigterm_lose_nothing(kind: str, tmp_path: Path) -> None:
    """Over UDP and 50 open connections; ready says no from SIGTERM on, and answers flow through the lameduck period."""
    health, ready = free_port(), free_port()
    pages = f"health 127.0.0.1:{health} {{\nlameduck 1s\n}}\nready 127.0.0.1:{ready}\n"
    text = KEPT.replace("loadbalance", f"{pages}loadbalance")

    async def test() -> None:
        site = ClusterServer(tmp_path, text, OBJECTS, workers=2)
        with default_signals(site.server):
            await site.server.start()
            served = asyncio.create_task(site.server.run())
            try:
                asked = Asked(site.address)
                async with asyncio.TaskGroup() as group:
                    for _ in range(4):
                        group.create_task(asked.over_udp())
                    for _ in range(asked.CONNECTIONS):
                        group.create_task(asked.over_tcp())
                    for turn in range(20):
                        before = asked.answered
                        await asked.until(before + 60)
                        broken = turn == 10
                        site.write(
                            ". {\nnonsense\n}\n"
                            if broken
                            else text.replace("pods", f"ttl {turn}\npods")
                        )
                        assert await site.server.reload() is not broken
                        assert await fetch(ready, "/ready") == "HTTP/1.1 200 OK"
                    os.kill(os.getpid(), signal.SIGTERM)
                    await until(lambda: site.server.stopping, "SIGTERM heard")
                    assert await fetch(ready, "/ready") == "HTTP/1.1 503 Service Unavailable"
                    assert await fetch(health, "/health") == "HTTP/1.1 200 OK"
                    before = asked.answered
                    site.apply(Upserted(service("default/web", "10.96.0.99", version="2")))
                    with UdpClient() as client:
                        wire, _ = await client.ask(ask(WEB), site.address)
                    assert "10.96.0.99" in summary(wire)
                    await asked.until(before + 60)
                    assert not served.done()
                    asked.over = True
                assert await served == 0
            finally:
                await site.server.close()
        assert site.total("coredns_reload_failed_total") == 1
        assert site.total("coredns_dns_requests_total") == asked.answered + 1

    with serving_with(kind):
        run(test())


def test_old_plugins_go_on_until_nobody_needs_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A query that waits when the reload comes finds its plugin running; the removed port answers it, then closes."""
    stopped: list[str] = []

    async def test() -> None:
        go_on = asyncio.Event()

        async def wait(self: Handler, request: Request, next: Next) -> Reply:  # noqa: A002 - the word of the plugin interface
            await go_on.wait()
            assert stopped == []
            return Reply(rcode=3)

        async def stop(self: Plugin) -> None:
            stopped.append(self.name)

        monkeypatch.setattr(Whoami, "handle", wait)
        monkeypatch.setattr(Whoami, "waits", True, raising=False)
        monkeypatch.setattr(Whoami, "stop", stop)
        async with running(Site(tmp_path, WHOAMI)) as site:
            asking = [asyncio.create_task(each) for each in (site.ask(), site.ask_tcp())]
            (listener,) = site.server.listeners
            await until(lambda: listener.pending == 2, "queries in work")
            site.write(WHOAMI.replace(". {", f".:{free_port()} {{"))
            assert await site.server.reload()
            assert stopped == []
            go_on.set()
            for each in asking:
                assert await each == "1 NXDOMAIN qr rd |  |  | "
            await until(lambda: stopped == ["whoami"], "the old plugin stopped")
            await until(lambda: is_free(site.port), "the old port given back")

    run(test())


@pytest.mark.parametrize(("word", "shown"), [("reload", True), ("", False)])
def test_running_configuration_is_logged(
    word: str, shown: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def test() -> None:
        async with running(Site(tmp_path, WHOAMI.replace("whoami", f"{word}\nwhoami"))) as site:
            site.server.show_running()
            digest = site.server.configuration.corefile.digest
            line = f"plugin/reload: Running configuration SHA512 = {digest}"
            assert caplog.messages == ([line] if shown else [])
            caplog.clear()
            assert await site.server.reload()
            expected = ["Reloading", *([line] if shown else []), "Reloading complete"]
            assert caplog.messages == expected

    with caplog.at_level(logging.INFO, "hsdns"):
        run(test())


def test_certificate_is_read_again_at_a_reload(tmp_path: Path) -> None:
    data = Path(__file__).parents[1] / "data" / "tls"
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"

    def install(name: str) -> None:
        cert.write_bytes((data / f"{name}.pem").read_bytes())
        key.write_bytes((data / f"{name}.key").read_bytes())

    async def shown(port: int) -> bytes:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
        found: bytes | None = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
        writer.close()
        assert found is not None
        return found

    async def test() -> None:
        install("server")
        text = f"tls://.:PORT {{\nbind 127.0.0.1\ntls {cert} {key}\nwhoami\n}}\n"
        async with running(Site(tmp_path, text)) as site:
            before = await shown(site.port)
            install("other-server")
            assert await site.server.reload()
            after = await shown(site.port)
            assert before != after
            cert.write_text("no certificate")
            assert not await site.server.reload()
            assert await shown(site.port) == after

    run(test())
