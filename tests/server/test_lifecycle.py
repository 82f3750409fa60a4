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
from tests.support.clients.messages import query, summary
from tests.support.clients.sockets import TcpClient, UdpClient
from tests.support.cluster.objects import service
from tests.support.coroutines.event_loops import LOOPS, run, until
from tests.support.servers.cluster_server import BlockingClient, ClusterServer
from tests.support.servers.memory_server import KUBERNETES, ask, cluster_objects
from tests.support.servers.udp_listeners import KINDS, NEEDS_NATIVE, serving_with

pytestmark = pytest.mark.sockets

NOERROR = "1 NOERROR qr aa rd"
REFUSED = "1 REFUSED qr rd |  |  | "


class ReloadableServer:
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
async def running(reloadable: ReloadableServer) -> AsyncIterator[ReloadableServer]:
    await reloadable.server.start()
    try:
        yield reloadable
    finally:
        await reloadable.server.close()
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
        async with running(ReloadableServer(tmp_path, WHOAMI)) as reloadable:
            assert (await reloadable.ask()).startswith(NOERROR)
            assert (await reloadable.ask_tcp()).startswith(NOERROR)
            assert reloadable.server.addresses == {
                ListenAddress("127.0.0.1", reloadable.port): ("127.0.0.1", reloadable.port)
            }
        assert is_free(reloadable.port)

    run(test(), loop)


def test_bound_and_unbound_blocks_share_a_port(tmp_path: Path) -> None:
    """As with CoreDNS: a query to the bound address sees the bound block alone."""

    async def test() -> None:
        text = "a.org {\nbind 127.0.0.1\nwhoami\n}\nb.org {\nwhoami\n}\n"
        async with running(ReloadableServer(tmp_path, text)) as reloadable:
            assert (await reloadable.ask("a.org")).startswith(NOERROR)
            assert await reloadable.ask("b.org") == REFUSED
            assert await reloadable.ask("a.org", host="127.0.0.2") == REFUSED
            assert (await reloadable.ask("b.org", host="127.0.0.2")).startswith(NOERROR)

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
        reloadable = ReloadableServer(tmp_path, text)
        with pytest.raises(CorefileError, match=error):
            await reloadable.server.start()
        assert other_tasks() == set()
        assert reloadable.server.addresses == {}
        assert is_free(reloadable.port)

    run(test())


@pytest.mark.parametrize("kind", [socket.SOCK_DGRAM, socket.SOCK_STREAM], ids=["udp", "tcp"])
def test_taken_port_starts_nothing(kind: socket.SocketKind, tmp_path: Path) -> None:
    async def test() -> None:
        http, free = free_port(), free_port()
        reloadable = ReloadableServer(
            tmp_path,
            f"a.org:{free} .:PORT {{\nbind 127.0.0.1\nhealth 127.0.0.1:{http}\nwhoami\n}}\n",
        )
        with socket.socket(type=kind) as other:
            other.bind(("127.0.0.1", reloadable.port))
            if kind == socket.SOCK_STREAM:
                other.listen()
            with pytest.raises(StartError, match="another program has the port"):
                await reloadable.server.start()
            assert other_tasks() == set()
            assert is_free(free)
        assert is_free(reloadable.port)
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
        reloadable = ReloadableServer(tmp_path, ". {\nbind 127.0.0.1\ndebug\nwhoami\n}\n")
        with pytest.raises(RuntimeError, match="a fault of the plugin"):
            await reloadable.server.start()
        assert Recording.log == ["start", "stop"]
        assert other_tasks() == set()
        assert is_free(reloadable.port)

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
        reloadable = ReloadableServer(
            tmp_path, f". {{\nbind 127.0.0.1\nhealth 127.0.0.1:{http}\nwhoami\n}}\n"
        )
        async with running(reloadable):
            assert seen == ["HTTP/1.1 200 OK"]

    run(test())


# --- change over ---


@pytest.mark.parametrize("loop", LOOPS)
def test_reload_loses_no_query(loop: str, tmp_path: Path) -> None:
    async def test() -> None:
        async with running(ReloadableServer(tmp_path, WHOAMI)) as reloadable:
            before = [
                reloadable.server.listeners.udp[listen].sock
                for listen in reloadable.server.addresses
            ]
            answered = 0
            done = False

            async def ask() -> None:
                nonlocal answered
                with UdpClient() as client:
                    while not done:
                        wire, _ = await client.ask(
                            query(number=answered).to_wire(), ("127.0.0.1", reloadable.port)
                        )
                        assert wire[3] & 15 == 0
                        answered += 1

            async with (
                TcpClient(("127.0.0.1", reloadable.port)) as memory_server,
                asyncio.TaskGroup() as group,
            ):
                for _ in range(4):
                    group.create_task(ask())
                for turn in range(5):
                    asked = answered
                    await until(lambda asked=asked: answered > asked + 20, "queries answered")  # type: ignore[misc]  # mypy cannot infer a default's type
                    reloadable.write(
                        WHOAMI.replace("whoami", "log\nwhoami" if turn % 2 else "whoami\nerrors")
                    )
                    assert await reloadable.server.reload()
                    memory_server.send(query(number=turn).to_wire())
                    assert (await memory_server.receive())[1] == turn
                done = True
            after = [
                reloadable.server.listeners.udp[listen].sock
                for listen in reloadable.server.addresses
            ]
            assert after == before
            assert reloadable.failures == 0

    run(test(), loop)


def test_reload_exchanges_plugins(tmp_path: Path) -> None:
    async def test() -> None:
        async with running(ReloadableServer(tmp_path, WHOAMI)) as reloadable:
            reloadable.write(WHOAMI.replace(". {", "example.net {"))
            assert await reloadable.server.reload()
            assert await reloadable.ask("example.org") == REFUSED
            assert (await reloadable.ask("example.net")).startswith(NOERROR)

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
        async with running(ReloadableServer(tmp_path, WHOAMI)) as reloadable:
            with UdpClient() as client:
                client.sock.sendto(query().to_wire(), ("127.0.0.1", reloadable.port))
                (udp,) = reloadable.server.listeners.udp.values()
                await until(lambda: udp.pending == 1, "a query in work")
                reloadable.write(WHOAMI.replace(". {", "example.net {"))
                assert await reloadable.server.reload()
                assert udp.pending == 1
                go_on.set()
                assert summary((await client.receive())[0]) == "1 NXDOMAIN qr rd |  |  | "

    run(test())


@pytest.mark.parametrize("loop", LOOPS)
def test_reload_opens_and_closes_ports(loop: str, tmp_path: Path) -> None:
    async def test() -> None:
        async with running(ReloadableServer(tmp_path, WHOAMI)) as reloadable:
            other = free_port()
            reloadable.write(WHOAMI + WHOAMI.replace(". {", f".:{other} {{"))
            assert await reloadable.server.reload()
            assert (await reloadable.ask(port=other)).startswith(NOERROR)
            assert (await reloadable.ask()).startswith(NOERROR)
            reloadable.write(WHOAMI.replace(". {", f".:{other} {{"))
            assert await reloadable.server.reload()
            assert (await reloadable.ask(port=other)).startswith(NOERROR)
            await until(lambda: is_free(reloadable.port), "the old port given back")
            assert list(reloadable.server.addresses) == [ListenAddress("127.0.0.1", other)]

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
        async with running(ReloadableServer(tmp_path, text.replace("BIND", first))) as reloadable:
            reloadable.write(text.replace("BIND", second))
            assert await reloadable.server.reload()
            assert (await reloadable.ask()).startswith(NOERROR)
            assert len(reloadable.server.addresses) == 1

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
        async with running(ReloadableServer(tmp_path, WHOAMI)) as reloadable:
            tasks = other_tasks()
            reloadable.write(text)
            caplog.clear()
            with caplog.at_level(logging.INFO, "hsdns"):
                assert not await reloadable.server.reload(only_if_changed=by_itself)
            said = [line for line in caplog.messages if not line.startswith("plugin/kubernetes: ")]
            begun, failed, again = said
            assert begun == "Reloading"
            assert failed.startswith("Restart failed: ")
            assert error in failed
            assert failed.endswith(" (serving goes on as before)")
            assert again.startswith(who)
            assert error in again
            assert reloadable.failures == 1
            assert (await reloadable.ask()).startswith(NOERROR)
            assert list(reloadable.server.addresses) == [
                ListenAddress("127.0.0.1", reloadable.port)
            ]
            assert other_tasks() == tasks
            reloadable.write(WHOAMI)
            assert await reloadable.server.reload()
            assert reloadable.failures == 1

    run(test())


@pytest.mark.parametrize(("text", "error"), BROKEN)
def test_broken_file_is_tried_once(text: str, error: str, tmp_path: Path) -> None:
    async def test() -> None:
        async with running(ReloadableServer(tmp_path, WHOAMI)) as reloadable:
            reloadable.write(text)
            for _ in range(3):
                await reloadable.server.reload(only_if_changed=True)
            assert reloadable.failures == 1
            reloadable.write(f"# another look\n{text}")
            await reloadable.server.reload()
            assert reloadable.failures == 2

    run(test())


def test_fault_of_a_plugin_keeps_the_old_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def fail(self: Plugin, runtime: Runtime) -> None:
        raise RuntimeError("a fault of the plugin")

    async def test() -> None:
        async with running(ReloadableServer(tmp_path, WHOAMI)) as reloadable:
            monkeypatch.setattr(Errors, "start", fail)
            reloadable.write(WHOAMI.replace("whoami", "whoami\nerrors"))
            assert not await reloadable.server.reload(only_if_changed=True)
            assert reloadable.failures == 1
            assert caplog.messages[-2:] == [
                "Restart failed; serving goes on as before",
                "plugin/reload: Corefile changed but reload failed: a fault of the plugin",
            ]
            assert (await reloadable.ask()).startswith(NOERROR)

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
        async with running(ReloadableServer(tmp_path, WHOAMI)) as reloadable:
            before = reloadable.server.configuration
            reloadable.write(text)
            runtime = reloadable.server._runtime
            assert runtime is not None
            await runtime.reload_if_changed()
            assert (reloadable.server.configuration is not before) is bool(reloads)

    run(test())


def test_plugins_of_the_old_configuration_are_stopped_with_their_tasks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(Recording, "log", [])
    monkeypatch.setattr(Debug, "start", Recording.start)
    monkeypatch.setattr(Debug, "stop", Recording.stop)
    monkeypatch.setattr(Debug, "log", Recording.log, raising=False)

    async def test() -> None:
        async with running(
            ReloadableServer(tmp_path, WHOAMI.replace("whoami", "debug\nwhoami"))
        ) as reloadable:
            reloadable.write(WHOAMI)
            assert await reloadable.server.reload()
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
        async with running(ReloadableServer(tmp_path, text)) as reloadable:
            (listener,) = reloadable.server._http._open.values()
            reloadable.write(text.replace("whoami", "whoami\nlog"))
            assert await reloadable.server.reload()
            assert list(reloadable.server._http._open.values()) == [listener]
            for path in ("/health", "/ready", "/metrics"):
                assert await fetch(http, path) == "HTTP/1.1 200 OK"
            reloadable.write(WHOAMI)
            assert await reloadable.server.reload()
            assert reloadable.server._http.bound == {}
            reloadable.write(text.replace("whoami\n", "whoami x\n"))
            assert not await reloadable.server.reload()
            assert reloadable.server._http.bound == {}

    run(test())


def test_reload_that_fails_late_gives_the_pages_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The new pages are served before the tables are made; the stopped plugins must not go on answering them."""

    async def test() -> None:
        http, other = free_port(), free_port()
        text = f". {{\nbind 127.0.0.1\nready 127.0.0.1:{http}\nwhoami\n}}\n"
        async with running(ReloadableServer(tmp_path, text)) as reloadable:
            (ready,) = [
                each for each in reloadable.server.configuration.plugins if each.name == "ready"
            ]

            def fail(*args: object) -> None:
                raise RuntimeError("a fault of the server")

            reloadable.write(text.replace("whoami", f"health 127.0.0.1:{other}\nwhoami"))
            with monkeypatch.context() as patched:
                patched.setattr(lifecycle, "make_processors", fail)
                assert not await reloadable.server.reload()
            assert is_free(other)
            with monkeypatch.context() as patched:
                patched.setattr(ready, "answer", None)
                patched.setattr(ready, "_runtime", None)
                assert await fetch(http, "/ready") == "HTTP/1.1 503 Service Unavailable"
            assert reloadable.failures == 1

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
        async with running(ReloadableServer(tmp_path, WHOAMI)) as reloadable:
            new = WHOAMI.replace(". {", "example.com {").replace("whoami", f"{change}\nwhoami")
            reloadable.write(new + f".:{other} {new[new.index('{') :]}")
            (before,) = [each.sockets for each in reloadable.server.listeners]
            configuration = reloadable.server.configuration
            kinds: list[Any] = [TcpServer] if what == "tcp" else UdpListener.__subclasses__()

            def fail(self: Any) -> None:
                raise RuntimeError("can't start new thread")

            with monkeypatch.context() as patched:
                for each in kinds:
                    patched.setattr(each, "start", fail)
                assert not await reloadable.server.reload()
            assert reloadable.failures == 1
            assert reloadable.server.configuration is configuration
            assert [each.sockets for each in reloadable.server.listeners] == [before]
            assert is_free(other)
            for _ in range(2):
                for reply in (await reloadable.ask(), await reloadable.ask_tcp()):
                    assert reply.startswith(NOERROR)
            assert await reloadable.server.reload()
            assert [await reloadable.ask(), await reloadable.ask_tcp()] == [REFUSED, REFUSED]
            assert (await reloadable.ask(port=other)).startswith(NOERROR)

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
        async with running(
            ReloadableServer(tmp_path, WHOAMI.replace("whoami", "debug\nwhoami"))
        ) as reloadable:
            assert await reloadable.server.reload()
            assert stopped == ["whoami"]

    run(test())


def test_tables_of_the_old_configuration_go(tmp_path: Path) -> None:
    """Though nothing collects what cli/launch.py froze after the start, and nobody scrapes."""
    text = f". {{\nbind 127.0.0.1\nprometheus 127.0.0.1:0\n{KUBERNETES}\n}}\n"

    async def test() -> None:
        reloadable = ClusterServer(
            tmp_path, text, cluster_objects(service("default/web", "10.96.0.1"))
        )
        async with reloadable:
            assert reloadable.server._runtime is not None
            (processor,) = reloadable.server._runtime.processors.values()
            keeper = weakref.ref(processor.writer)
            del processor
            gc.disable()
            try:
                assert await reloadable.server.reload()
                reloadable.server.metrics.fold()  # a little later write_logs() does it
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
        reloadable = ClusterServer(
            tmp_path, stays + goes, cluster_objects(service("default/web", "10.96.0.1"))
        )
        loop = asyncio.get_running_loop()
        async with reloadable, TcpClient(there) as tcp:
            with UdpClient() as udp, UdpClient() as waiting:
                await udp.ask(ask(known), there)
                waiting.sock.sendto(ask("www.example.org."), there)
                query, forwarder = await loop.sock_recvfrom(upstream, 512)
                reloadable.write(stays)
                assert await reloadable.server.reload()
                for number in range(6):
                    reloadable.server.metrics.fold()
                    await udp.ask(ask(known, query_id=number), there)
                    tcp.send(ask(known, query_id=number))
                    await tcp.receive()
                upstream.sendto(query[:2] + b"\x81\x83" + query[4:], forwarder)
                await loop.sock_recv(waiting.sock, 512)
                await until(lambda: not len(reloadable.server._retiring), "the address given up")
                counted = reloadable.value("coredns_dns_requests_total")
                looked_up = reloadable.value("hsdns_table_lookups_total")
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
        reloadable = ReloadableServer(
            tmp_path,
            text.replace(
                f"health 127.0.0.1:{http}", f"health 127.0.0.1:{http} {{\nlameduck 30s\n}}"
            ),
        )
        lameduck = Lameduck(monkeypatch)
        caplog.set_level(logging.INFO, "hsdns")
        monkeypatch.setattr(Health, "_watch", lambda *_: asyncio.Event().wait())
        with default_signals(reloadable.server):
            await reloadable.server.start()
            served = asyncio.create_task(reloadable.server.run())
            assert await fetch(http, "/ready") == "HTTP/1.1 200 OK"
            os.kill(os.getpid(), signal.SIGTERM)
            await until(lambda: bool(lameduck.seconds), "the lameduck period")
            assert lameduck.seconds == [30]
            assert "plugin/health: Going into lameduck mode for 30s" in caplog.messages
            assert await fetch(http, "/ready") == "HTTP/1.1 503 Service Unavailable"
            assert await fetch(http, "/health") == "HTTP/1.1 200 OK"
            assert (await reloadable.ask()).startswith(NOERROR)
            assert (await reloadable.ask_tcp()).startswith(NOERROR)
            assert not await reloadable.server.reload()
            assert not served.done()
            lameduck.over.set()
            assert await served == 0
        assert is_free(reloadable.port)
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
        reloadable = ReloadableServer(tmp_path, corefile)
        lameduck = Lameduck(monkeypatch)
        with default_signals(reloadable.server):
            await reloadable.server.start()
            assert not reloadable.server.is_serving
            assert await reloadable.server.run() == 0
        assert (stopped, lameduck.seconds) == (["whoami"], [])
        assert is_free(reloadable.port)
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
        reloadable = ReloadableServer(tmp_path, corefile)
        lameduck = Lameduck(monkeypatch)
        monkeypatch.setattr(Health, "_watch", lambda *_: asyncio.Event().wait())
        with default_signals(reloadable.server):
            await reloadable.server.start()
            served = asyncio.create_task(reloadable.server.run())
            for number in numbers:
                os.kill(os.getpid(), number)
                if number in (signal.SIGTERM, signal.SIGINT):
                    await until(
                        lambda: bool(lameduck.seconds) or served.done(), "the lameduck period"
                    )
                elif number != signal.SIGQUIT:
                    assert (await reloadable.ask()).startswith(NOERROR)
            if status == 0 and signal.SIGQUIT not in numbers:
                lameduck.over.set()
            async with asyncio.timeout(5):
                assert await served == status
        assert is_free(reloadable.port)
        quits = "SIGQUIT: Quitting process immediately" in caplog.messages
        assert quits is (signal.SIGQUIT in numbers)
        assert ("SIGINT: Force quit" in caplog.messages) is (status == 2)

    run(test())


def test_sigusr1_reloads(tmp_path: Path) -> None:
    async def test() -> None:
        reloadable = ReloadableServer(tmp_path, WHOAMI)
        with default_signals(reloadable.server):
            async with running(reloadable):
                before = reloadable.server.configuration
                os.kill(os.getpid(), signal.SIGUSR1)
                await until(lambda: reloadable.server.configuration is not before, "a reload")
                assert (await reloadable.ask()).startswith(NOERROR)

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
        reloadable = ReloadableServer(tmp_path, WHOAMI)
        await reloadable.server.start()
        served = asyncio.create_task(reloadable.server.run())
        with UdpClient() as udp:
            async with TcpClient(("127.0.0.1", reloadable.port)) as tcp:
                udp.sock.sendto(query().to_wire(), ("127.0.0.1", reloadable.port))
                tcp.send(query().to_wire())
                servers: list[UdpListener | TcpServer] = [
                    *reloadable.server.listeners.udp.values(),
                    *(each.tcp for each in reloadable.server.listeners),
                ]
                await until(lambda: all(server.pending for server in servers), "queries in work")
                await reloadable.server.shut_down()
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
        async with running(ReloadableServer(tmp_path, WHOAMI)) as reloadable:
            (listener,) = reloadable.server.listeners
            with UdpClient() as udp:
                async with TcpClient(("127.0.0.1", reloadable.port)) as tcp:
                    udp.sock.sendto(query().to_wire(), ("127.0.0.1", reloadable.port))
                    tcp.send(query().to_wire())
                    await until(lambda: listener.pending == 2, "queries in work")
                    assert await reloadable.server.reload()
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
        gated = Gated()
        gated.install(monkeypatch)
        reloadable, other = ReloadableServer(tmp_path, WHOAMI), free_port()
        await reloadable.server.start()
        served = asyncio.create_task(reloadable.server.run())
        reloadable.write(WHOAMI.replace(". {", f". .:{other} {{"))
        reloading = asyncio.create_task(reloadable.server.reload())
        await gated.entered.wait()
        if has_changed_over:
            gated.go_on.set()
            await until(
                lambda: reloadable.server.configuration.plugins[-1] in gated.started[1:], "new"
            )
        await reloadable.server.shut_down()
        assert await served == 0
        gated.go_on.set()
        (ended,) = await asyncio.gather(reloading, return_exceptions=True)
        assert ended is True if has_changed_over else isinstance(ended, asyncio.CancelledError)
        assert sorted(map(id, gated.stopped)) == sorted(map(id, gated.started))
        assert other_tasks() == set()
        assert is_free(reloadable.port)
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
        reloadable = ReloadableServer(tmp_path, WHOAMI)
        with default_signals(reloadable.server):
            await reloadable.server.start()
            served = asyncio.create_task(reloadable.server.run())
            with UdpClient() as udp:
                udp.sock.sendto(query().to_wire(), ("127.0.0.1", reloadable.port))
                (server,) = reloadable.server.listeners.udp.values()
                await until(lambda: bool(server.pending), "a query in work")
                await reloadable.server.shut_down()
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
        reloadable = ReloadableServer(tmp_path, WHOAMI)
        await reloadable.server.start()
        assert reloadable.server._runtime is not None
        reloadable.server._runtime.fail("a loop was found")
        return await reloadable.server.run()

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
        reloadable = ReloadableServer(
            tmp_path, WHOAMI.replace("whoami", "debug\nwhoami") if debugs else WHOAMI
        )
        async with running(reloadable):
            assert await reloadable.ask() == "1 SERVFAIL qr rd |  |  | "
            assert reloadable.server.metrics.counter("coredns_panics_total", "").values == {(): 1}
            if debugs:
                assert await reloadable.server.run() == 1
            else:
                assert await reloadable.ask() == "1 SERVFAIL qr rd |  |  | "

    run(test())


def test_refused_queries_are_counted_as_dropped(tmp_path: Path) -> None:
    async def test() -> None:
        reloadable = ReloadableServer(tmp_path, WHOAMI.replace(". {", "example.net {"))
        async with running(reloadable):
            assert await reloadable.ask("example.org") == REFUSED
            (labels,) = reloadable.server.metrics.counter(
                "coredns_dns_requests_total",
                "",
            ).values
            assert labels == (f"dns://127.0.0.1:{reloadable.port}", "dropped", "", "udp", "1", "A")

    run(test())


def test_plugins_are_shown_for_a_block_s_first_key(tmp_path: Path) -> None:
    async def test() -> None:
        http = free_port()
        block = f"10.0.0.0/15 b.org {{\nbind 127.0.0.1\nprometheus 127.0.0.1:{http}\nwhoami\n}}\n"
        async with running(ReloadableServer(tmp_path, block)) as reloadable:
            shown = reloadable.server.metrics.gauge("coredns_plugin_enabled", "").values
            server = f"dns://127.0.0.1:{reloadable.port}"
            names = ("prometheus", "whoami")
            assert set(shown) == {(server, "0.10.in-addr.arpa.", "", name) for name in names}

    run(test())


def test_plugins_of_a_chain_are_shown(tmp_path: Path) -> None:
    async def test() -> None:
        http = free_port()
        reloadable = ReloadableServer(
            tmp_path,
            f"a.org {{\nbind 127.0.0.1\nprometheus 127.0.0.1:{http}\nerrors\nwhoami\n}}\n"
            "b.org {\nbind 127.0.0.1\nwhoami\n}\n",
        )
        async with running(reloadable):
            shown = reloadable.server.metrics.gauge("coredns_plugin_enabled", "").values
            server = f"dns://127.0.0.1:{reloadable.port}"
            assert set(shown) == {
                (server, "a.org.", "", name) for name in ("prometheus", "errors", "whoami")
            }
            await reloadable.ask("a.org")
            responses = reloadable.server.metrics.counter("coredns_dns_responses_total", "").values
            assert set(responses) == {(server, "a.org.", "", "NOERROR", "errors")}

    run(test())


@pytest.mark.parametrize(("word", "level"), [("", logging.INFO), ("debug", logging.DEBUG)])
def test_log_level(word: str, level: int, tmp_path: Path) -> None:
    async def test() -> int:
        async with running(ReloadableServer(tmp_path, WHOAMI.replace("whoami", f"{word}\nwhoami"))):
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
        with BlockingClient(self._address, way) as client:
            while count < wanted or not self.over.is_set():
                assert client.ask(names[count % len(names)])[3] & 15 in (0, 3)
                count += 1
                self.answered += 1
        return count


@pytest.mark.parametrize("kind", KINDS)
def test_reload_under_load_loses_no_query(kind: str, tmp_path: Path) -> None:
    """At least 2,000 queries in three ways while tables, chains and plugins are exchanged; each is counted once."""

    async def test() -> None:
        async with ClusterServer(tmp_path, KEPT, OBJECTS, workers=2) as reloadable:
            load = Load(reloadable.address)
            asking = [
                asyncio.create_task(asyncio.to_thread(load.ask, way, wanted))
                for way, wanted in (("udp", 800), ("udp", 800), ("tcp", 200), ("udp-chain", 200))
            ]
            for turn in range(1, 6):
                before = load.answered
                await until(lambda before=before: load.answered > before + 100, "queries answered")  # type: ignore[misc]  # mypy cannot infer a default's type
                reloadable.write(KEPT.replace("pods insecure", f"pods insecure\nttl {turn}"))
                assert await reloadable.server.reload()
            load.over.set()
            answered = sum(await asyncio.gather(*asking))
            assert answered >= 2_000
            assert reloadable.total("coredns_dns_requests_total") == answered
            assert reloadable.total("coredns_reload_failed_total") == 0
            assert reloadable.total("hsdns_udp_queue_drops_total") == 0
            assert reloadable.hits() > answered / 4

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
        reloadable = ClusterServer(tmp_path, KEPT, OBJECTS, workers=2)
        with default_signals(reloadable.server):
            await reloadable.server.start()
            served = asyncio.create_task(reloadable.server.run())
            flooding = asyncio.create_task(asyncio.to_thread(flood, reloadable.address, over))
            try:
                await until(lambda: reloadable.hits() > 200, "queries answered")
                os.kill(os.getpid(), signal.SIGTERM)
                async with asyncio.timeout(10):
                    assert await served == 0
            finally:
                over.set()
                await flooding
        names = [thread.name for thread in threading.enumerate()]
        assert [name for name in names if name.startswith("udp worker")] == []
        assert is_free(reloadable.port)

    with serving_with(kind):
        run(test())


@pytest.mark.parametrize("kind", KINDS)
def test_claims_that_change_while_listeners_open(kind: str, tmp_path: Path) -> None:
    """The new listener has no sockets behind it yet; its table is the newest all the same."""

    async def test() -> None:
        async with ClusterServer(tmp_path, KEPT, OBJECTS) as reloadable:
            real = TcpServer.start
            other = free_port()

            async def start(server: TcpServer) -> None:
                assert reloadable.server._opening is not None
                reloadable.server._opening.names_answered_first_changed()
                await real(server)

            reloadable.write(KEPT.replace(".:PORT", f".:PORT .:{other} .:{free_port()}"))
            with patch.object(TcpServer, "start", start):
                assert await reloadable.server.reload()
            runtime = reloadable.server._runtime
            assert runtime is not None
            for listen, udp in reloadable.server.listeners.udp.items():
                assert udp.processor is runtime.processors[listen.server]
                assert reloadable.server.listeners[listen].tcp.processor is udp.processor
            for port in (reloadable.port, other):
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
        reloadable = ReloadableServer(tmp_path, WHOAMI)
        starting = asyncio.create_task(reloadable.server.start())
        await entered.wait()
        reloadable.write(WHOAMI.replace(". {", "example.com {"))
        reloading = asyncio.create_task(reloadable.server.reload(only_if_changed=only_if_changed))
        asyncio.get_running_loop().call_soon(go_on.set)  # after the reload has begun
        await starting
        try:
            assert await reloading
            assert await reloadable.ask() == REFUSED
            assert reloadable.failures == 0
        finally:
            await reloadable.server.close()

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
        reloadable = ReloadableServer(tmp_path, WHOAMI)
        starting = asyncio.create_task(reloadable.server.start())
        await entered.wait()
        reloading = asyncio.create_task(reloadable.server.reload())
        asyncio.get_running_loop().call_soon(go_on.set)  # after the reload has begun
        with pytest.raises(StartError, match="a fault of the plugin"):
            await starting
        assert not await reloading
        assert other_tasks() == set()
        assert is_free(reloadable.port)

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
        reloadable = ReloadableServer(tmp_path, WHOAMI)
        await reloadable.server.start()
        monkeypatch.setattr(Debug, "start", start)
        monkeypatch.setattr(Debug, "stop", stop)
        monkeypatch.setattr(Whoami, "start", fail)
        reloadable.write(WHOAMI.replace("whoami", "debug\nwhoami"))
        reloading = asyncio.create_task(reloadable.server.reload())
        await entered.wait()
        asyncio.get_running_loop().call_soon(go_on.set)  # after the end has begun
        await reloadable.server.close()
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
        reloadable = ReloadableServer(tmp_path, WHOAMI.replace(". {", f". .:{other} {{"))
        with default_signals(reloadable.server), UdpClient() as udp:
            await reloadable.server.start()
            served = asyncio.create_task(reloadable.server.run())
            udp.sock.sendto(query().to_wire(), ("127.0.0.1", other))
            asked = reloadable.server.listeners.udp[ListenAddress("127.0.0.1", other)]
            await until(lambda: bool(asked.pending), "a query in work")
            reloadable.write(WHOAMI)
            assert await reloadable.server.reload()
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
        async with ClusterServer(tmp_path, text, OBJECTS) as reloadable:
            configuration = reloadable.server.configuration

            async def start(server: TcpServer) -> None:
                opening().names_answered_first_changed()
                assert reloadable.server.configuration is configuration
                for number in range(4):
                    reloadable.server.metrics.fold()
                    with UdpClient() as client:
                        await client.ask(ask(WEB, query_id=number), ("127.0.0.1", other))
                raise RuntimeError("can't start new thread")

            def opening() -> Any:
                return reloadable.server._opening

            reloadable.write(KEPT.replace(".:PORT", f".:PORT .:{free_port()}"))
            with patch.object(TcpServer, "start", start):
                assert not await reloadable.server.reload()
            assert reloadable.value("coredns_dns_requests_total") == {
                (f"dns://127.0.0.1:{other}", ".", "", "udp", "1", "A"): 4
            }

    with serving_with("loop"):
        run(test())


def test_claims_that_change_while_a_reload_opens_count_no_line_twice(tmp_path: Path) -> None:
    async def test() -> None:
        other = free_port()
        text = KEPT.replace(".:PORT", f".:PORT .:{other}")
        async with ClusterServer(tmp_path, text, OBJECTS) as reloadable:
            leaving = reloadable.server.listeners[
                ListenAddress("127.0.0.1", other)
            ].processor.writer
            assert leaving is not None
            leaving.table.log.dropped = 5
            real = TcpServer.start

            async def start(server: TcpServer) -> None:
                await real(server)
                reloadable.server._opening.names_answered_first_changed()  # type: ignore[union-attr]  # it is one, here
                reloadable.server.metrics.fold()

            reloadable.write(KEPT.replace(".:PORT", f".:PORT .:{free_port()}"))
            with patch.object(TcpServer, "start", start):
                assert await reloadable.server.reload()
            await until(lambda: not len(reloadable.server._retiring), "the address given up")
            assert reloadable.total("hsdns_log_drops_total") == 5

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
        async with running(ReloadableServer(tmp_path, text)) as reloadable:
            old = [
                each for each in reloadable.server.configuration.plugins if each.name == "whoami"
            ]
            with monkeypatch.context() as patched:
                patched.setattr(TcpServer, "end", fail)
                reloadable.write(WHOAMI)
                assert await reloadable.server.reload()
                await until(lambda: not len(reloadable.server._retiring), "the address given up")
            assert stopped == old
            assert "retire ended with an error" in caplog.messages
            async with asyncio.timeout(5):
                assert await reloadable.server.reload()

    run(test())


@pytest.mark.parametrize("kind", KINDS)
def test_counts_of_a_listener_that_closes_are_kept(kind: str, tmp_path: Path) -> None:
    async def test() -> None:
        other = free_port()
        text = KEPT.replace(".:PORT", f".:PORT .:{other}")
        async with ClusterServer(tmp_path, text, OBJECTS) as reloadable:
            for number in range(5):
                with UdpClient() as client:
                    await client.ask(ask(WEB, query_id=number), ("127.0.0.1", other))
            closing = reloadable.server.listeners.udp[ListenAddress("127.0.0.1", other)]
            closing.statistics = lambda: (3, {1: 2})  # type: ignore[method-assign]  # as if that had happened
            reloadable.write(KEPT)
            assert await reloadable.server.reload()
            assert reloadable.total("coredns_dns_requests_total") == 5
            lookups = reloadable.value("hsdns_table_lookups_total")
            assert lookups[f"dns://127.0.0.1:{other}", "hit"] == 4
            assert reloadable.total("hsdns_udp_queue_drops_total") == 3
            assert reloadable.value("hsdns_udp_send_errors_total") == {("EPERM",): 2}

    with serving_with(kind):
        run(test())


@pytest.mark.parametrize("kind", KINDS)
def test_workers_share_a_port(kind: str, tmp_path: Path) -> None:
    """Where there are none the loop has one socket."""

    async def test() -> None:
        async with ClusterServer(tmp_path, KEPT, OBJECTS, workers=3) as reloadable:
            (udp,) = reloadable.server.listeners.udp.values()
            assert len(udp.sockets) == (1 if kind == "loop" else 3)
            (labels,) = reloadable.value("hsdns_fastpath_info", "gauge")
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
        async with running(ReloadableServer(tmp_path, text)) as reloadable:
            with ExitStack() as stack:
                held, *others = [stack.enter_context(UdpClient()) for _ in range(33)]
                held.sock.sendto(query().to_wire(), ("127.0.0.1", reloadable.port))
                (old,) = reloadable.server.listeners.udp.values()
                await until(lambda: old.pending == 1, "a query in work")
                reloadable.write(text.replace("multisocket 2", "multisocket 3"))
                assert await reloadable.server.reload()
                (new,) = reloadable.server.listeners.udp.values()
                assert new is not old
                for client in others:  # from many ports, so each socket gets some
                    client.sock.sendto(query().to_wire(), ("127.0.0.1", reloadable.port))
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
        reloadable = ClusterServer(tmp_path, text, OBJECTS, workers=2)
        with default_signals(reloadable.server):
            await reloadable.server.start()
            served = asyncio.create_task(reloadable.server.run())
            try:
                asked = Asked(reloadable.address)
                async with asyncio.TaskGroup() as group:
                    for _ in range(4):
                        group.create_task(asked.over_udp())
                    for _ in range(asked.CONNECTIONS):
                        group.create_task(asked.over_tcp())
                    for turn in range(20):
                        before = asked.answered
                        await asked.until(before + 60)
                        broken = turn == 10
                        reloadable.write(
                            ". {\nnonsense\n}\n"
                            if broken
                            else text.replace("pods", f"ttl {turn}\npods")
                        )
                        assert await reloadable.server.reload() is not broken
                        assert await fetch(ready, "/ready") == "HTTP/1.1 200 OK"
                    os.kill(os.getpid(), signal.SIGTERM)
                    await until(lambda: reloadable.server.stopping, "SIGTERM heard")
                    assert await fetch(ready, "/ready") == "HTTP/1.1 503 Service Unavailable"
                    assert await fetch(health, "/health") == "HTTP/1.1 200 OK"
                    before = asked.answered
                    reloadable.apply(Upserted(service("default/web", "10.96.0.99", version="2")))
                    with UdpClient() as client:
                        wire, _ = await client.ask(ask(WEB), reloadable.address)
                    assert "10.96.0.99" in summary(wire)
                    await asked.until(before + 60)
                    assert not served.done()
                    asked.over = True
                assert await served == 0
            finally:
                await reloadable.server.close()
        assert reloadable.total("coredns_reload_failed_total") == 1
        assert reloadable.total("coredns_dns_requests_total") == asked.answered + 1

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
        async with running(ReloadableServer(tmp_path, WHOAMI)) as reloadable:
            asking = [
                asyncio.create_task(each) for each in (reloadable.ask(), reloadable.ask_tcp())
            ]
            (listener,) = reloadable.server.listeners
            await until(lambda: listener.pending == 2, "queries in work")
            reloadable.write(WHOAMI.replace(". {", f".:{free_port()} {{"))
            assert await reloadable.server.reload()
            assert stopped == []
            go_on.set()
            for each in asking:
                assert await each == "1 NXDOMAIN qr rd |  |  | "
            await until(lambda: stopped == ["whoami"], "the old plugin stopped")
            await until(lambda: is_free(reloadable.port), "the old port given back")

    run(test())


@pytest.mark.parametrize(("word", "shown"), [("reload", True), ("", False)])
def test_running_configuration_is_logged(
    word: str, shown: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def test() -> None:
        async with running(
            ReloadableServer(tmp_path, WHOAMI.replace("whoami", f"{word}\nwhoami"))
        ) as reloadable:
            reloadable.server.show_running()
            digest = reloadable.server.configuration.corefile.digest
            line = f"plugin/reload: Running configuration SHA512 = {digest}"
            assert caplog.messages == ([line] if shown else [])
            caplog.clear()
            assert await reloadable.server.reload()
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
        async with running(ReloadableServer(tmp_path, text)) as reloadable:
            before = await shown(reloadable.port)
            install("other-server")
            assert await reloadable.server.reload()
            after = await shown(reloadable.port)
            assert before != after
            cert.write_text("no certificate")
            assert not await reloadable.server.reload()
            assert await shown(reloadable.port) == after

    run(test())
