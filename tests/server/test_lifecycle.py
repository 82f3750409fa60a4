"""The server's life on loopback: start, change over, stop."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import os
import signal
import ssl
import threading
import weakref
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from hsdns import chain
from hsdns.assemble import ListenAddress
from hsdns.chain import Handler, Next, Request
from hsdns.cluster.objects import Upserted
from hsdns.plugins.forward import Forward
from hsdns.plugins.health import Health
from hsdns.plugins.whoami import Whoami
from hsdns.server.instance import Instance, StartError
from hsdns.server.lifecycle import Phase
from hsdns.server.transport import listeners
from hsdns.upstream.exchange import Upstream
from hsdns.wire.message import Reply
from loadtest.ports import free_port
from tests.server.loopback import (
    NOERROR,
    WHOAMI,
    Lameduck,
    ReloadableServer,
    default_signals,
    fetch,
    is_free,
    other_tasks,
    running,
    serving,
)
from tests.server.stand_ins import Script, World
from tests.support.clients.messages import query, summary
from tests.support.clients.sockets import TcpClient, UdpClient
from tests.support.cluster.objects import service
from tests.support.coroutines.event_loops import until
from tests.support.servers.cluster_server import ClusterServer
from tests.support.servers.memory_server import KUBERNETES, ask, cluster_objects
from tests.support.servers.udp_listeners import NEEDS_NATIVE, each_kind, serving_with

pytestmark = pytest.mark.sockets


# --- start ---


async def test_a_server_that_ends_while_the_corefile_is_read_starts_no_other_instance(
    tmp_path: Path,
) -> None:
    async with running(ReloadableServer(tmp_path, WHOAMI)) as reloadable:
        server, read = reloadable.server, asyncio.Event()

        async def in_thread(function: Callable[..., Any], *args: Any, **options: Any) -> Any:
            await read.wait()
            return function(*args, **options)

        server.in_thread = in_thread
        before = server.instance
        reload = asyncio.create_task(server.reload())
        await until(lambda: server.phase is Phase.RELOADING, "a reload")
        await server.shut_down()
        read.set()
        assert not await reload
        assert server.instances == [before]
        assert reloadable.total("coredns_reload_failed_total") == 0


# --- change over ---


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
async def test_reload_of_a_broken_file_keeps_the_old_one(
    text: str,
    error: str,
    by_itself: bool,
    who: str,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
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
        assert reloadable.total("coredns_reload_failed_total") == 1
        assert (await reloadable.ask()).startswith(NOERROR)
        assert list(reloadable.server.addresses) == [ListenAddress("127.0.0.1", reloadable.port)]
        assert other_tasks() == tasks
        reloadable.write(WHOAMI)
        assert await reloadable.server.reload()
        assert reloadable.total("coredns_reload_failed_total") == 1


HTTP = ". {\nbind 127.0.0.1\nhealth 127.0.0.1:HTTP\nready 127.0.0.1:HTTP\nprometheus 127.0.0.1:HTTP\nwhoami\n}\n"


async def test_http_sockets_stay_open_through_a_reload(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    http = free_port()
    text = HTTP.replace("HTTP", str(http))
    async with running(ReloadableServer(tmp_path, text)) as reloadable:
        (listener,) = reloadable.server.http._open.values()
        reloadable.write(text.replace("whoami", "whoami\nlog"))
        assert await reloadable.server.reload()
        assert list(reloadable.server.http._open.values()) == [listener]
        for path in ("/health", "/ready", "/metrics"):
            assert await fetch(http, path) == "HTTP/1.1 200 OK"
        reloadable.write(WHOAMI)
        assert await reloadable.server.reload()
        assert reloadable.server.http.bound == {}
        reloadable.write(text)
        monkeypatch.setattr(reloadable.server, "make_processors", mock.Mock(side_effect=StartError))
        assert not await reloadable.server.reload()
        assert reloadable.server.http.bound == {}


# --- stop ---


async def test_plugin_that_fails_ends_the_process(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    reloadable = ReloadableServer(tmp_path, WHOAMI)
    await reloadable.server.start()
    serving(reloadable.server).fail("a loop was found")
    assert (await reloadable.server.run()) == 1
    assert ("hsdns.server", logging.CRITICAL, "a loop was found") in caplog.record_tuples


@pytest.mark.parametrize(("word", "shown"), [("reload", True), ("", False)])
async def test_running_configuration_is_logged(
    word: str, shown: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, "hsdns"):
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


async def test_certificate_is_read_again_at_a_reload(tmp_path: Path) -> None:
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


MANY_PLUGINS = Path(__file__).with_name("many_plugins.corefile").read_text()


def _upstreams(instance: Instance) -> list[Upstream]:
    plugins = [each for each in instance.configuration.plugins if isinstance(each, Forward)]
    return [upstream for each in plugins for route in each.routes for upstream in route.upstreams]


async def test_what_reloads_replace_is_freed_without_a_collection(tmp_path: Path) -> None:
    """hsdns/memory.py exempts configurations from collections, so none may end in a circle."""
    gc.collect()
    gc.disable()
    try:
        old: list[weakref.ref[object]] = []
        async with running(ReloadableServer(tmp_path, MANY_PLUGINS)) as reloadable:
            for port in range(5):
                instance = serving(reloadable.server)
                old += [weakref.ref(each) for each in instance.configuration.plugins]
                old += [weakref.ref(each) for each in (instance, instance.configuration)]
                old += [weakref.ref(each) for each in _upstreams(instance)]
                del instance
                more = f"example{port}.org:PORT {{\nbind 127.0.0.1\nwhoami\n}}\n"
                reloadable.write(MANY_PLUGINS + more)
                assert await reloadable.server.reload()
                for name in ("one.example", "fwd.example", "doh.example"):
                    await reloadable.ask(name)
            await until(lambda: len(reloadable.server.instances) == 1, "the end of the old ones")
            # The last one is taken apart a block a turn.
            with contextlib.suppress(AssertionError):  # what is left says more
                await until(lambda: all(each() is None for each in old), "their end in memory")
            assert sorted({repr(each()) for each in old if each() is not None}) == []
    finally:
        gc.enable()


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
async def test_signals(
    numbers: list[signal.Signals],
    status: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
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
                await until(lambda: bool(lameduck.seconds) or served.done(), "the lameduck period")
            elif number != signal.SIGQUIT:
                assert (await reloadable.ask()).startswith(NOERROR)
        if status == 0 and signal.SIGQUIT not in numbers:
            lameduck.over.set()
        async with asyncio.timeout(30):
            assert await served == status
    assert is_free(reloadable.port)
    quits = "SIGQUIT: Quitting process immediately" in caplog.messages
    assert quits is (signal.SIGQUIT in numbers)
    assert ("SIGINT: Force quit" in caplog.messages) is (status == 2)


@pytest.mark.parametrize("stop", ["fails", "ends as cancelled"])
def test_plugin_that_does_not_stop_cleanly_keeps_no_other_from_it(stop: str) -> None:
    world = World(Script(stops=(stop, "now", "now")))
    try:
        world.loop.turn(40)
        world.loop.call_soon(world.server.quit, 0)
        world.loop.wait(0.1)
        assert world.main.result() == 0
        assert [each.stopped for each in world.plugins] == [1, 1, 1]
        expected = ["plugin/health did not stop cleanly"] if stop == "fails" else []
        assert world.errors.messages == expected
    finally:
        world.close()


# A whole server under load: reloads, another number of workers and a signal to end lose no query.

KEPT = f".:PORT {{\nbind 127.0.0.1\nprometheus 127.0.0.1:HTTP\nloadbalance\n{KUBERNETES}}}\n"


WEB = "web.default.svc.cluster.local."


OBJECTS = cluster_objects(service("default/web", "10.96.0.1"))


@NEEDS_NATIVE
@pytest.mark.parametrize("is_patient", [True, False])
async def test_another_number_of_workers_loses_no_query(
    is_patient: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel gives datagrams to the old sockets, too, until they close; the new ones' loop answers these."""
    monkeypatch.setattr(listeners, "DRAIN_TIMEOUT", 20.0 if is_patient else 0.0)
    monkeypatch.setattr(listeners, "LINGER_TIMEOUT", 20.0)
    text = WHOAMI.replace("whoami", "multisocket 2\nwhoami")

    with serving_with("workers"):
        go_on = asyncio.Event()

        async def wait(self: Handler, request: Request, next: Next) -> Reply:  # noqa: A002 - the word of the plugin interface
            await go_on.wait()
            return Reply(rcode=3)

        monkeypatch.setattr(Whoami, "handle", wait)
        monkeypatch.setattr(Whoami, "waits", True, raising=False)
        monkeypatch.setattr(chain, "_known", {})  # what is known of it
        async with running(ReloadableServer(tmp_path, text)) as reloadable:
            with ExitStack() as stack:
                held, *others = [stack.enter_context(UdpClient()) for _ in range(33)]
                held.sock.sendto(query().to_wire(), ("127.0.0.1", reloadable.port))
                (old,) = serving(reloadable.server).listeners.udp.values()
                await until(lambda: old.pending == 1, "a query in work")
                reloadable.write(text.replace("multisocket 2", "multisocket 3"))
                assert await reloadable.server.reload()
                (new,) = serving(reloadable.server).listeners.udp.values()
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


class Asked:
    """A dozen connections, and as many UDP clients, that ask as fast as they are answered; each reply is looked at."""

    CONNECTIONS = 12

    def __init__(self, address: tuple[str, int]) -> None:
        self.address = address
        self.answered = self.repeated = 0
        self.over = False

    async def over_udp(self) -> None:
        with UdpClient() as client:
            number = 0
            while not self.over:
                number = number % 65_535 + 1
                wire, _ = await client.ask(ask(WEB, query_id=number), self.address)
                self.note(wire, number)
            self.repeated += len(client.repeated)

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


@each_kind
async def test_reloads_and_one_sigterm_lose_nothing(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Over UDP and open connections; ready says no from SIGTERM on, and answers flow through the lameduck period."""
    health, ready = free_port(), free_port()
    pages = f"health 127.0.0.1:{health} {{\nlameduck 30s\n}}\nready 127.0.0.1:{ready}\n"
    text = KEPT.replace("loadbalance", f"{pages}loadbalance")

    lameduck = Lameduck(monkeypatch)
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
                for turn in range(6):
                    before = asked.answered
                    await asked.until(before + 60)
                    broken = turn == 3
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
            lameduck.over.set()
            assert await served == 0
            assert not [
                each for each in threading.enumerate() if each.name.startswith("udp worker")
            ]
            assert is_free(reloadable.port)
        finally:
            await reloadable.server.close()
    assert reloadable.total("coredns_reload_failed_total") == 1
    more = reloadable.total("coredns_dns_requests_total") - asked.answered - 1
    assert 0 <= more <= asked.repeated
