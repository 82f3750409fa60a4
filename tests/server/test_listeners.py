"""The sockets of the process: what a change of the Corefile opens, keeps and lets go of."""

from __future__ import annotations

import asyncio
import errno
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from hsdns.assemble import Configuration, ListenAddress, assemble
from hsdns.corefile.parser import parse
from hsdns.metrics import Registry
from hsdns.plugins import ORDER
from hsdns.query import QueryProcessor
from hsdns.server import listeners as module
from hsdns.server.listeners import Leaving, Listeners
from hsdns.server.runtime import ServerRuntime, Tasks
from hsdns.server.sockets import BoundSockets, ListenError
from hsdns.wire.message import Reply
from loadtest.ports import free_port
from tests.support.clients.messages import query
from tests.support.clients.sockets import TcpClient, UdpClient
from tests.support.coroutines.event_loops import run, until
from tests.support.servers.function_processor import Answer, processor
from tests.support.servers.udp_listeners import KINDS, NEEDS_NATIVE, serving_with

pytestmark = pytest.mark.sockets

DATA = Path(__file__).parents[1] / "data" / "tls"


class ReloadableListeners:
    """Listeners whose Corefile changes; each configuration answers with an rcode of its own."""

    def __init__(self, workers: int = 1) -> None:
        self.tasks = Tasks()
        self.listeners = Listeners(Registry(), self.tasks.spawn, ServerRuntime.clock, workers)
        self.port = free_port()
        self.answers = 0

    def configuration(self, text: str) -> Configuration:
        """What a Corefile says; PORT stands for the site's port."""
        corefile = parse(
            "Corefile",
            text=text.replace("PORT", str(self.port)),
            environ={},
            known_directives=ORDER,
        )
        return assemble(corefile, interfaces=dict, warn=pytest.fail)

    async def change(self, text: str, answer: Answer | None = None) -> list[Leaving]:
        """Change over; return what is left."""
        self.answers += 1
        rcode = self.answers

        async def count(request: object) -> Reply:
            return Reply(rcode=rcode)

        configuration = self.configuration(text)
        opened: dict[ListenAddress, BoundSockets] = {}
        bound = await self.listeners.open(configuration, opened)
        assert set(bound) == {listener.listen.server for listener in configuration.listeners}
        made: dict[str, QueryProcessor] = {
            server: processor(answer or count, server) for server in bound
        }
        return await self.listeners.use(configuration.listeners, made.__getitem__, opened)

    async def ask(self, way: str = "udp", host: str = "127.0.0.1") -> int:
        """The rcode that is answered."""
        wire = query().to_wire()
        if way == "udp":
            with UdpClient() as client:
                return (await client.ask(wire, (host, self.port)))[0][3] & 15
        async with TcpClient((host, self.port)) as tcp:
            tcp.send(wire)
            return (await tcp.receive())[3] & 15


@asynccontextmanager
async def serving(workers: int = 1) -> AsyncIterator[ReloadableListeners]:
    reloadable = ReloadableListeners(workers)
    try:
        yield reloadable
    finally:
        await reloadable.listeners.let_go(
            list(reloadable.listeners._leaving)
        )  # of a test that failed
        await reloadable.listeners.close(lambda: False)
        await reloadable.tasks.cancel()
        with socket.create_server(("127.0.0.1", reloadable.port)):
            pass  # it was given back


BOUND = ".:PORT {\nbind 127.0.0.1\nwhoami\n}\n"
OTHER = ".:0 {\nbind 127.0.0.1\nwhoami\n}\n"


@pytest.mark.parametrize("kind", KINDS)
def test_open_exchange_let_go(kind: str) -> None:
    async def test() -> None:
        async with serving() as reloadable:
            assert await reloadable.change(BOUND) == []
            before = reloadable.listeners[ListenAddress("127.0.0.1", reloadable.port)].sockets
            assert [await reloadable.ask("udp"), await reloadable.ask("tcp")] == [1, 1]
            assert await reloadable.change(BOUND + OTHER) == []
            assert (
                reloadable.listeners[ListenAddress("127.0.0.1", reloadable.port)].sockets == before
            )
            assert [await reloadable.ask("udp"), await reloadable.ask("tcp")] == [2, 2]
            assert len(reloadable.listeners.addresses) == len(reloadable.listeners.udp) == 2
            left = await reloadable.change(OTHER)
            assert [await reloadable.ask("udp"), await reloadable.ask("tcp")] == [2, 2]
            await reloadable.listeners.let_go(left)
            with pytest.raises(ConnectionRefusedError):
                await reloadable.ask("tcp")

    with serving_with(kind):
        run(test())


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_let_go_answers_what_is_in_work(kind: str) -> None:
    async def test() -> None:
        go_on = asyncio.Event()

        async def wait(request: object) -> Reply:
            await go_on.wait()
            return Reply(rcode=9)

        async with serving() as reloadable:
            await reloadable.change(BOUND, wait)
            asking = [asyncio.create_task(reloadable.ask(way)) for way in ("udp", "tcp")]
            (listener,) = reloadable.listeners
            await until(lambda: listener.pending == 2, "queries in work")
            left = await reloadable.change(OTHER)
            closing = asyncio.create_task(reloadable.listeners.let_go(left))
            # Who wants the address again waits for it.
            changing = asyncio.create_task(reloadable.change(BOUND))
            await until(lambda: listener.tcp._server is None, "no new connections")
            assert not changing.done()
            go_on.set()
            assert [await each for each in asking] == [9, 9]
            await closing
            left = await changing
            assert await reloadable.ask() == 3
            await reloadable.listeners.let_go(left)

    with serving_with(kind):
        run(test())


@pytest.mark.parametrize("kind", KINDS)
def test_what_has_arrived_is_answered_before_the_end(kind: str) -> None:
    """Datagrams that lie in the socket when reading stops."""

    async def test() -> None:
        async with serving() as reloadable:
            await reloadable.change(BOUND)
            (listener,) = reloadable.listeners
            with UdpClient() as client:
                for number in range(200):
                    client.sock.sendto(
                        query(number=number).to_wire(), ("127.0.0.1", reloadable.port)
                    )
                listener.stop_reading()
                assert listener.pending == 0
                seen = {(await client.receive())[0][:2] for _ in range(200)}
            assert len(seen) == 200

    with serving_with(kind):
        run(test())


@pytest.mark.parametrize("kind", KINDS)
def test_old_socket_answers_for_the_new_one(kind: str) -> None:
    """From one address to all: what the kernel still gives to the old socket is answered as on the new one."""

    async def test() -> None:
        async with serving() as reloadable:
            await reloadable.change(BOUND)
            left = await reloadable.change(".:PORT {\nwhoami\n}\n")
            assert [await reloadable.ask("udp"), await reloadable.ask("tcp")] == [2, 2]
            await reloadable.listeners.let_go(left)
            assert [await reloadable.ask("udp"), await reloadable.ask("tcp")] == [2, 2]

    with serving_with(kind):
        run(test())


def test_connections_end_without_a_reset() -> None:
    """Also those with queries that nobody has read."""

    async def test() -> None:
        async with serving() as reloadable:
            await reloadable.change(BOUND)
            async with TcpClient(("127.0.0.1", reloadable.port)) as client:
                client.send(query().to_wire())
                await client.receive()
                (listener,) = reloadable.listeners
                listener.tcp.end()
                client.send(query().to_wire())
                async with asyncio.timeout(5):
                    assert (
                        await client.reader.read() == b""
                    )  # an end of file, no ConnectionResetError

    run(test())


def test_patience_has_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "DRAIN_TIMEOUT", 0.0)
    monkeypatch.setattr(module, "LINGER_TIMEOUT", 0.0)

    async def test() -> None:
        async def wait(request: object) -> Reply:
            await asyncio.Event().wait()
            return Reply()

        async with serving() as reloadable:
            await reloadable.change(BOUND, wait)
            async with TcpClient(("127.0.0.1", reloadable.port)) as client:
                client.send(query().to_wire())
                (listener,) = reloadable.listeners
                await until(lambda: listener.pending == 1, "a query in work")
                await reloadable.listeners.close(lambda: False)
                assert await client.has_ended()

    run(test())


def test_tls_and_https_are_tcp_alone() -> None:
    async def test() -> None:
        async with serving() as reloadable:
            tls = f"tls {DATA}/server.pem {DATA}/server.key"
            text = f"tls://.:PORT https://.:0 {{\nbind 127.0.0.1\n{tls}\nwhoami\n}}\n"
            await reloadable.change(text)
            assert reloadable.listeners.udp == {}
            over_tls, https = reloadable.listeners
            before = over_tls.tcp.settings
            assert before.tls is not None
            assert https.tcp.settings.max_connections == 200
            assert len(over_tls.sockets) == 1
            with socket.socket(type=socket.SOCK_DGRAM) as free:
                free.bind(("127.0.0.1", reloadable.port))
            # A reload without the certificate: the same sockets, plain text from the next connection on.
            await reloadable.change(text.replace(tls, "timeouts {\nread 9s\n}"))
            after = over_tls.tcp.settings
            assert (after.tls, after.limits.read) == (None, 9)
            assert await reloadable.ask("tcp") == 2

    run(test())


def test_what_cannot_be_opened() -> None:
    async def test() -> None:
        async with serving() as reloadable:
            await reloadable.change(BOUND)
            opened: dict[ListenAddress, BoundSockets] = {}
            wrong = reloadable.configuration(OTHER + ".:PORT {\nbind 192.0.2.99\nwhoami\n}\n")
            with pytest.raises(ListenError, match="this host has no such address"):
                await reloadable.listeners.open(wrong, opened)
            (found,) = opened.values()
            reloadable.listeners.give_back(opened)
            assert [sock.fileno() for sock in (*found.udp, found.tcp)] == [-1, -1]
            assert await reloadable.ask() == 1

    run(test())


# --- the number of workers ---


def shared(sock: socket.socket) -> bool:
    return bool(sock.getsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT))


@NEEDS_NATIVE
@pytest.mark.parametrize(("first", "second"), [(1, 3), (3, 1), (2, 3)])
def test_reload_changes_the_number_of_workers(first: int, second: int) -> None:
    async def test() -> None:
        async with serving(workers=first) as reloadable:
            await reloadable.change(BOUND)
            (udp,) = reloadable.listeners.udp.values()
            assert len(udp.sockets) == first
            left = await reloadable.change(BOUND.replace("whoami", f"multisocket {second}\nwhoami"))
            assert left == [udp]
            for _ in range(20):
                assert await reloadable.ask() == 2
            await reloadable.listeners.let_go(left)
            (udp,) = reloadable.listeners.udp.values()
            assert len(udp.sockets) == second
            assert [shared(sock) for sock in udp.sockets] == [second > 1] * second
            for _ in range(20):
                assert await reloadable.ask() == 2
            assert await reloadable.ask("tcp") == 2

    with serving_with("workers"):
        run(test())


@NEEDS_NATIVE
def test_workers_that_cannot_be_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    """The sockets that are open are not closed for it."""

    async def test() -> None:
        async with serving() as reloadable:
            await reloadable.change(BOUND)
            opened: dict[ListenAddress, BoundSockets] = {}
            real = socket.socket
            made: list[Any] = []

            def scarce(*args: Any) -> socket.socket:
                made.append(args)
                if len(made) > 2:
                    raise OSError(errno.EMFILE, "Too many open files")
                return real(*args)

            more = reloadable.configuration(BOUND.replace("whoami", "multisocket 4\nwhoami"))
            monkeypatch.setattr("hsdns.server.sockets.socket.socket", scarce)
            with pytest.raises(ListenError, match="Too many open files"):
                await reloadable.listeners.open(more, opened)
            monkeypatch.undo()
            reloadable.listeners.give_back(opened)
            assert await reloadable.ask() == 1
            (udp,) = reloadable.listeners.udp.values()
            assert not shared(udp.sock)

    with serving_with("workers"):
        run(test())


def test_loop_has_one_socket() -> None:
    async def test() -> None:
        async with serving(workers=4) as reloadable:
            await reloadable.change(BOUND.replace("whoami", "multisocket 3\nwhoami"))
            (udp,) = reloadable.listeners.udp.values()
            assert len(udp.sockets) == 1

    with serving_with("loop"):
        run(test())
