"""A listener for connections on loopback, made as the server makes it, with a clock that the test moves."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

from hsdns.assemble import ListenAddress
from hsdns.metrics import Counter, Registry
from hsdns.server.admission import MAX_CLIENTS, Admission, Credit, Places, Turns
from hsdns.server.listeners import Opener
from hsdns.server.runtime import Tasks
from hsdns.server.sockets import DEFAULT_SETTINGS, Settings, open_tcp
from tests.support.coroutines.event_loops import until
from tests.support.servers.function_processor import Answer, asked_address, processor

DATA: Final = Path(__file__).parents[2] / "data" / "tls"
ADDRESS: Final = "127.0.0.1"


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
    clock: Callable[[], float],
    places: Places | None = None,
    credit: Credit | None = None,
    call_soon: Callable[[Callable[[], None]], object] | None = None,
) -> Admission:
    """What a listener shares with no other."""
    turns = Turns(clock, call_soon or (lambda call: asyncio.get_running_loop().call_soon(call)))
    places = Places(MAX_CLIENTS) if places is None else places
    return Admission(places, turns, Counter("", ""), credit)


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
        return self.metrics.counter(name, "").values.get(labels, 0.0)

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
