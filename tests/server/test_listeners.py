"""The listeners of a configuration: what a change of the Corefile binds, takes over and drains."""

from __future__ import annotations

import errno
import socket
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from hsdns.assemble import Configuration, ListenAddress
from hsdns.metrics import Registry
from hsdns.query import QueryProcessor
from hsdns.server.runtime import Tasks
from hsdns.server.transport.admission import Places
from hsdns.server.transport.listeners import Listener, Listeners, Opener
from hsdns.server.transport.sockets import ListenError
from hsdns.server.transport.tcp import TcpListener
from hsdns.wire.message import Reply
from loadtest.ports import free_port
from tests.server.stand_ins import ScriptedLoop
from tests.support.clients.messages import query
from tests.support.clients.sockets import TcpClient, UdpClient
from tests.support.plugins.corefiles import assembled
from tests.support.servers.function_processor import Answer, processor
from tests.support.servers.noted import Noted
from tests.support.servers.udp_listeners import NEEDS_NATIVE, each_kind, serving_with

pytestmark = pytest.mark.sockets

DATA = Path(__file__).parents[1] / "data" / "tls"


class ReloadableListeners:
    """Listeners whose Corefile changes; each configuration answers with an rcode of its own."""

    def __init__(self, workers: int = 1) -> None:
        self.tasks = Tasks()
        self.opener = Opener(Registry(), self.tasks.spawn, time.monotonic, workers, Places(64))
        self.listeners = Listeners(self.opener, ())
        self.made: list[Listeners] = []
        self.port = free_port()
        self.answers = 0

    def configuration(self, text: str) -> Configuration:
        """What a Corefile says; PORT stands for the site's port."""
        return assembled(text.replace("PORT", str(self.port)), interfaces=dict)

    async def change(self, text: str, answer: Answer | None = None) -> Listeners:
        """Serve another Corefile; return the listeners of the one before, which has to drain them."""
        self.answers += 1
        rcode = self.answers

        async def count(request: object) -> Reply:
            return Reply(rcode=rcode)

        configuration = self.configuration(text)
        before, new = self.listeners, Listeners(self.opener, configuration.listeners)
        self.made.append(new)
        bound = new.bind(before)
        assert set(bound) == {listener.listen.server for listener in configuration.listeners}
        made: dict[str, QueryProcessor] = {
            server: processor(answer or count, server) for server in bound
        }
        await new.start(made)
        new.take_over(before, made)
        self.listeners = new
        return before

    async def ask(self, way: str = "udp", host: str = "127.0.0.1") -> int:
        """The rcode that is answered."""
        wire = query().to_wire()
        if way == "udp":
            with UdpClient() as client:
                return (await client.ask(wire, (host, self.port)))[0][3] & 15
        async with TcpClient((host, self.port)) as tcp:
            tcp.send(wire)
            return (await tcp.receive())[3] & 15


def never() -> bool:
    return False


def tcp_of(listener: Listener) -> TcpListener:
    assert listener.tcp is not None
    return listener.tcp


@asynccontextmanager
async def serving(workers: int = 1) -> AsyncIterator[ReloadableListeners]:
    reloadable = ReloadableListeners(workers)
    try:
        yield reloadable
    finally:
        for each in reloadable.made:
            await each.drain(never)
        await reloadable.tasks.cancel()
        with socket.create_server(("127.0.0.1", reloadable.port)):
            pass  # it was given back


BOUND = ".:PORT {\nbind 127.0.0.1\nwhoami\n}\n"
OTHER = ".:0 {\nbind 127.0.0.1\nwhoami\n}\n"


@each_kind
async def test_start_take_over_drain(kind: str) -> None:
    async with serving() as reloadable:
        await reloadable.change(BOUND)
        before = reloadable.listeners[ListenAddress("127.0.0.1", reloadable.port)].sockets
        assert [await reloadable.ask("udp"), await reloadable.ask("tcp")] == [1, 1]
        assert len(await reloadable.change(BOUND + OTHER)) == 0
        assert reloadable.listeners[ListenAddress("127.0.0.1", reloadable.port)].sockets == before
        assert [await reloadable.ask("udp"), await reloadable.ask("tcp")] == [2, 2]
        assert len(reloadable.listeners.addresses) == len(reloadable.listeners.udp) == 2
        old = await reloadable.change(OTHER)
        assert [await reloadable.ask("udp"), await reloadable.ask("tcp")] == [2, 2]
        await old.drain(never)
        with pytest.raises(ConnectionRefusedError):
            await reloadable.ask("tcp")


async def test_tls_and_https_are_tcp_alone() -> None:
    async with serving() as reloadable:
        tls = f"tls {DATA}/server.pem {DATA}/server.key"
        text = f"tls://.:PORT https://.:0 {{\nbind 127.0.0.1\n{tls}\nwhoami\n}}\n"
        await reloadable.change(text)
        assert reloadable.listeners.udp == {}
        over_tls, https = reloadable.listeners
        before = tcp_of(over_tls).settings
        assert before.tls is not None
        assert tcp_of(https).settings.max_connections == 200
        assert len(over_tls.sockets) == 1
        with socket.socket(type=socket.SOCK_DGRAM) as free:
            free.bind(("127.0.0.1", reloadable.port))
        # A reload without the certificate: the same sockets, plain text from the next connection on.
        await reloadable.change(text.replace(tls, "timeouts {\nread 9s\n}"))
        after = tcp_of(over_tls).settings
        assert (after.tls, after.limits.read) == (None, 9)
        assert await reloadable.ask("tcp") == 2


# --- the number of workers ---


def shared(sock: socket.socket) -> bool:
    return bool(sock.getsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT))


@NEEDS_NATIVE
async def test_workers_that_cannot_be_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    """The sockets that are open are not closed for it."""
    with serving_with("workers"):
        async with serving() as reloadable:
            await reloadable.change(BOUND)
            real = socket.socket
            made: list[Any] = []

            def scarce(*args: Any) -> socket.socket:
                made.append(args)
                if len(made) > 2:
                    raise OSError(errno.EMFILE, "Too many open files")
                return real(*args)

            more = reloadable.configuration(BOUND.replace("whoami", "multisocket 4\nwhoami"))
            monkeypatch.setattr("hsdns.server.transport.sockets.socket.socket", scarce)
            new = Listeners(reloadable.opener, more.listeners)
            with pytest.raises(ListenError, match="Too many open files"):
                new.bind(reloadable.listeners)
            monkeypatch.undo()
            await new.release(never)
            assert await reloadable.ask() == 1
            (udp,) = reloadable.listeners.udp.values()
            assert not shared(udp.sock)


class Part(Noted):
    """UDP or TCP, of which the order of calls is wanted."""

    def __init__(self, log: list[str], name: str) -> None:
        super().__init__(log, f"{name} ")
        self.connections: set[int] = set()


def drained(listener: Listener, is_needed: bool, is_forced: bool = False) -> float:
    """Drain it; return how long that took."""
    loop = ScriptedLoop(lambda: None)
    try:
        loop.run_until_complete(listener.drain(loop.time, lambda: is_forced, lambda: is_needed))
        return loop.now
    finally:
        loop.close()


@pytest.mark.parametrize(
    ("is_needed", "is_forced", "seconds"),
    [(False, False, 0.0), (True, True, 0.0), (True, False, 6.0)],
)
def test_time_limits(is_needed: bool, is_forced: bool, seconds: float) -> None:
    log: list[str] = []
    udp: Any = Part(log, "udp")
    tcp: Any = Part(log, "tcp")
    assert drained(Listener(udp, tcp), is_needed, is_forced) == pytest.approx(seconds, abs=0.05)
    assert log == ["tcp stop_accepting", "udp stop_reading", "tcp end", "udp close", "tcp close"]


def test_replaced_workers_take_what_has_arrived_meanwhile() -> None:
    log: list[str] = []
    udp: Any = Part(log, "udp")
    drained(Listener(udp, None), is_needed=False)
    assert log == ["udp stop_reading", "udp stop_reading", "udp close"]
