"""The upstream of a server in memory: the server behind a node cache, or a real server.

Path: stage.py -> here, at the place of `forward` in the chain.
Rule 1: a real server's reply is stored by its question, so that all clients of all scenarios get the same reply, and no
        virtual time passes during the wait.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, ClassVar, Final, Self

from hsdns.chain import Next, Request
from hsdns.corefile.properties import Property
from hsdns.corefile.tree import Directive
from hsdns.fault_scenarios.scenario import ScenarioError
from hsdns.plugin import Block, Plugin, Runtime
from hsdns.wire.decode import decode_reply
from hsdns.wire.encode import encode_query
from hsdns.wire.iana import Rcode
from hsdns.wire.message import Reply, unwritten

Exchange = Callable[[bytes, str], Awaitable[bytes | None]]  # a message and "udp" or "tcp"
BUDGET: Final = 5.0  # seconds, after which `forward` gives up
TIMEOUT: Final = 2.0  # seconds for a real server


class Ahead(Plugin):
    """Queries another server; `exchange` returns its reply, None if there is none."""

    name: ClassVar[str] = "forward"
    PROPERTIES: ClassVar[dict[str, Property[Any]]] = {}

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange

    @classmethod
    def setup(cls, directives: Sequence[Directive], block: Block) -> Self:
        """Never called, because it is not in a Corefile."""
        raise NotImplementedError

    async def start(self, runtime: Runtime) -> None:
        """Do nothing."""

    async def handle(self, request: Request, next: Next) -> Reply:  # noqa: A002 - the word of the plugin interface
        """Query the server; as with `forward`, no reply gives SERVFAIL."""
        query = request.query
        wire = await self._exchange(encode_query(query, query.id), request.protocol)
        if wire is None:
            await asyncio.sleep(BUDGET)
            return unwritten(Rcode.SERVFAIL, "no reply from the server behind")
        return decode_reply(wire, query)


class OtherServer:
    """A real DNS server at an address and a port; `problem` is the reason for a missing reply."""

    def __init__(self, address: str, port: int) -> None:
        self.address, self.port = address, port
        self.problem: ScenarioError | None = None
        self._replies: dict[tuple[bytes, str], bytes] = {}

    async def exchange(self, message: bytes, transport: str) -> bytes | None:
        """Return the reply to a message, None if there is none.  It blocks, so the virtual clock does not advance."""
        key = message[2:], transport
        if key not in self._replies:
            try:
                self._replies[key] = self._ask(message, transport)
            except OSError as error:
                where = f"{self.address} port {self.port} over {transport.upper()}"
                self.problem = ScenarioError(f"no reply from {where}: {error}")
                return None
        return message[:2] + self._replies[key][2:]

    def _ask(self, message: bytes, transport: str) -> bytes:
        family = socket.AF_INET6 if ":" in self.address else socket.AF_INET
        kind = socket.SOCK_STREAM if transport == "tcp" else socket.SOCK_DGRAM
        with socket.socket(family, kind) as sock:
            sock.settimeout(TIMEOUT)
            sock.connect((self.address, self.port))
            if transport == "udp":
                sock.send(message)
                return sock.recv(65535)
            sock.sendall(len(message).to_bytes(2, "big") + message)
            with sock.makefile("rb") as stream:
                return stream.read(int.from_bytes(stream.read(2), "big"))
