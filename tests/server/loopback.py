"""A whole server on loopback whose Corefile can be rewritten.

Path: tests only.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import pytest

from hsdns.assemble import ListenAddress
from hsdns.server.instance import Instance
from hsdns.server.lifecycle import Server, handle_signals
from hsdns.server.transport.sockets import ListenError, open_both
from tests.support.clients.messages import query, summary
from tests.support.clients.sockets import TcpClient, UdpClient
from tests.support.servers.cluster_server import ClusterServer

NOERROR = "1 NOERROR qr aa rd"


REFUSED = "1 REFUSED qr rd |  |  | "


class ReloadableServer(ClusterServer):
    """A server with the source of its Corefile, and clients of it."""

    async def ask(self, qname: str = "example.org", port: int = 0, host: str = "127.0.0.1") -> str:
        with UdpClient() as client:
            wire, came_from = await client.ask(query(qname).to_wire(), (host, port or self.port))
            assert came_from == host
            return summary(wire)

    async def ask_tcp(self, qname: str = "example.org") -> str:
        async with TcpClient(("127.0.0.1", self.port)) as client:
            client.send(query(qname).to_wire())
            return summary(await client.receive())


def serving(server: Server) -> Instance:
    assert server.instance is not None
    return server.instance


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
    handle_signals(server)
    try:
        yield
    finally:
        for number, handler in before.items():
            asyncio.get_running_loop().remove_signal_handler(number)
            signal.signal(number, handler)
