"""Listeners for connections, with a clock that the test moves: on loopback, made as the server makes them, and in memory.

Path: tests only.
"""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
import struct
import types
from collections.abc import AsyncIterator, Callable, Generator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final, cast

from hsdns.assemble import ListenAddress
from hsdns.chain import BlockChoice, Endpoint
from hsdns.fastpath.table import AnswerTable
from hsdns.metrics import Counter, Registry
from hsdns.query import QueryProcessor
from hsdns.server.http.doh import DohServer
from hsdns.server.runtime import Tasks
from hsdns.server.transport.admission import MAX_CLIENTS, Admission, Credit, Places, Turns
from hsdns.server.transport.listeners import Opener
from hsdns.server.transport.sockets import DEFAULT_SETTINGS, Settings, client_endpoint, open_tcp
from hsdns.server.transport.tcp import DnsConnection, TcpListener
from tests.support.coroutines.event_loops import until
from tests.support.servers.function_processor import Answer, asked_address, processor

DATA: Final = Path(__file__).parents[2] / "data" / "tls"
ADDRESS: Final = "127.0.0.1"


def backlog(sock: socket.socket) -> int:
    """How many connections may wait until a listening socket accepts them (tcp_info.tcpi_sacked of Linux)."""
    with socket.socket(fileno=os.dup(sock.fileno())) as own:
        found: int = struct.unpack_from(
            "I", own.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 32), 28
        )[0]
        return found


def server_context(name: str = "server", clients: bool = False) -> ssl.SSLContext:
    """That of a server, which may want certificates of its clients."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(DATA / f"{name}.pem", DATA / f"{name}.key")
    if clients:
        context.load_verify_locations(DATA / "ca.pem")
        context.verify_mode = ssl.CERT_REQUIRED
    return context


def client_context(
    *protocols: str, authority: str = "ca", version: str = "TLSv1_3"
) -> ssl.SSLContext:
    """That of a client, which offers protocols (ALPN)."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(DATA / f"{authority}.pem")
    context.maximum_version = ssl.TLSVersion[version]
    if protocols:
        context.set_alpn_protocols(list(protocols))
    return context


def admission(
    spawn: Any,  # it may keep what is spawned
    clock: Callable[[], float],
    places: Places | None = None,
    credit: Credit | None = None,
    call_soon: Callable[[Callable[[], None]], object] | None = None,
) -> Admission:
    """What a listener shares with no other."""
    turns = Turns(clock, call_soon or (lambda call: asyncio.get_running_loop().call_soon(call)))
    places = Places(MAX_CLIENTS) if places is None else places
    return Admission(spawn, clock, places, turns, Counter(""), credit)


class Serving:
    """A listener, the clock that it reads, and its metrics."""

    def __init__(
        self,
        answer: Answer = asked_address,
        server: str = "dns://:53",
        settings: Settings = DEFAULT_SETTINGS,
        host: str = ADDRESS,
        places: Places | None = None,
    ) -> None:
        self.now = 100.0
        self.tasks = Tasks()
        self.metrics = Registry()
        places = Places(MAX_CLIENTS) if places is None else places
        self.opener = Opener(self.metrics, self.tasks.spawn, lambda: self.now, 1, places)
        sock = open_tcp(ListenAddress(host, 0))
        self.port: int = sock.getsockname()[1]
        self.address = host or ADDRESS, self.port
        self.server = self.opener.make_tcp(sock, processor(answer, server), settings)

    def count(self, name: str, *labels: str) -> float:
        """A counter's value."""
        return self.metrics.counter(name).values.get(labels, 0.0)

    @property
    def rejected(self) -> float:
        """How many connections were closed at once."""
        return self.count("hsdns_tcp_rejected_total")

    async def connect(
        self, context: ssl.SSLContext | None = None
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Connect; with a context over TLS, and shake hands."""
        name = None if context is None else ADDRESS
        return await asyncio.open_connection(ADDRESS, self.port, ssl=context, server_hostname=name)

    async def connection(self) -> Any:
        """The only connection, as the server sees it."""
        await until(lambda: len(self.server.connections) == 1, "a connection")
        (found,) = self.server.connections
        return found


@asynccontextmanager
async def started(found: Serving, *, waits: bool = True) -> AsyncIterator[Serving]:
    """Serve meanwhile, and close all connections; `waits` until they are."""
    await found.server.start()
    try:
        yield found
    finally:
        found.server.close()
        if waits:
            await until(lambda: not found.server.connections, "all closed")
        await found.tasks.cancel()


class MemoryTransport(asyncio.Transport):
    """What a connection does with its transport; a client that does not read pauses it at the first octet."""

    def __init__(self, client: str, alpn: str = "", *, reads: bool = True) -> None:
        local = ("::1", 53, 0, 0) if ":" in client else (ADDRESS, 53)
        super().__init__({"peername": (client, 40000, *local[2:]), "sockname": local})
        if alpn:
            self._extra["ssl_object"] = SimpleNamespace(selected_alpn_protocol=lambda: alpn)  # type: ignore[attr-defined]  # asyncio's
        self.connection: DnsConnection
        self.writes: list[bytes] = []
        self.reads = reads
        self.is_over = self.is_aborted = self.is_paused = False

    @property
    def written(self) -> bytes:
        return b"".join(self.writes)

    def write(self, data: Any) -> None:
        assert not self.is_over
        self.writes.append(bytes(data))
        if not self.reads:
            self.connection.pause_writing()

    def get_write_buffer_size(self) -> int:
        return 0 if self.reads else len(self.written)

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def close(self) -> None:
        self.is_over = True

    def abort(self) -> None:
        self.is_over = self.is_aborted = True

    def is_closing(self) -> bool:
        return self.is_over

    def pause_reading(self) -> None:
        self.is_paused = True

    def resume_reading(self) -> None:
        self.is_paused = False


class MemoryProcessor(QueryProcessor):
    """Answers from a table that knows each question, or those with an even ID; else from a chain that never ends."""

    def __init__(self, server: str) -> None:
        super().__init__(server, BlockChoice.by_zone({}))
        self.knows = "all"  # "all", "even" or "none"
        self.size = 0  # of each reply, if it is not that of its query
        self.looked_up: list[tuple[int, Endpoint]] = []
        self.chained: list[str] = []  # the addresses of the clients whose queries the chain had
        self.drops: Callable[[], None] | None = None  # the chain is silent, after this call

    @property
    def lookup(self) -> Any:
        return self._look_up

    @property
    def table(self) -> Any:
        return SimpleNamespace(answer_framed=partial(cast("Any", AnswerTable.answer_framed), self))

    def _look_up(self, wire: bytes, *, client: bytes, **_: object) -> bytes | None:
        self.looked_up.append((int.from_bytes(wire[:2], "big"), client_endpoint(client)))
        if self.knows == "none" or (self.knows == "even" and wire[1] & 1):
            return None
        return wire[:2] + b"\x84" + wire[3:] + bytes(max(0, self.size - len(wire)))

    async def answer(self, wire: bytes, client: Endpoint, *_: Any, **__: Any) -> bytes | None:
        self.chained.append(client.address)
        if self.drops is not None:
            self.drops()
            return None
        await forever()
        return None


@types.coroutine
def forever() -> Generator[None, None, None]:
    """Wait, without a loop."""
    yield


class MemoryServing:
    """A listener without a loop, for TCP or https://, whose turns the test begins."""

    def __init__(self, scheme: str = "dns") -> None:
        self.now = 100.0
        self.next: list[Callable[[], None]] = []
        self.credit = Credit()
        self.excesses = Counter("excesses", ("server", "limit"))
        self.coroutines: list[Any] = []
        self.alpn = "h2" if scheme == "https" else ""
        self.processor = MemoryProcessor(f"{scheme}://:1")
        shared = admission(
            self.coroutines.append, lambda: self.now, credit=self.credit, call_soon=self.next.append
        )
        self.server: TcpListener
        with socket.socket() as sock:
            of = sock, self.processor, shared
            if scheme == "https":
                counters = (Counter("", ("server", "status")), self.excesses)
                settings = Settings(tls=ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER))
                self.server = DohServer(*of, settings, counters=counters)
            else:
                self.server = TcpListener(*of)

    def connect(self, client: str = "192.0.2.1", *, reads: bool = True) -> MemoryTransport:
        """A new connection, as its transport."""
        transport = MemoryTransport(client, self.alpn, reads=reads)
        transport.connection = self.server.make_connection()
        transport.connection.connection_made(transport)
        return transport

    def turn(self) -> None:
        """Begin the next turn of the loop."""
        calls, self.next[:] = list(self.next), []
        for call in calls:
            call()

    def finish(self) -> None:
        """Begin turns until nothing is to be done."""
        while self.next:
            self.turn()

    def close(self) -> None:
        """End what waits in chains."""
        for coroutine in self.coroutines:
            coroutine.close()
