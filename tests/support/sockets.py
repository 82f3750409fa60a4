"""What tests of the edges share: both event loops, conditions with a deadline, a processor from one function, clients.

A client here speaks bytes; dnspython makes and reads them.
"""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Self, TypeVar

import dns.flags
import dns.message
import dns.rcode
import uvloop

from hsdns.block_choice import BlockChoice
from hsdns.chain import Request
from hsdns.query import QueryProcessor
from hsdns.wire import rdata
from hsdns.wire.iana import RRType
from hsdns.wire.message import RR, Reply
from hsdns.wire.name import ROOT

T = TypeVar("T")
Answer = Callable[[Request], Awaitable[Reply]]

LOOPS: dict[str, Callable[[], asyncio.AbstractEventLoop]] = {
    "asyncio": asyncio.new_event_loop,
    "uvloop": uvloop.new_event_loop,
}
DEADLINE = 5.0  # seconds; what is waited for takes milliseconds on an idle machine
_PAUSE = 0.002


def run(coro: Coroutine[Any, Any, T], loop: str = "uvloop") -> T:
    """Run a coroutine on one of the LOOPS."""
    with asyncio.Runner(loop_factory=LOOPS[loop]) as runner:
        return runner.run(coro)


async def until(condition: Callable[[], bool], what: str) -> None:
    """Wait until a condition holds; raise AssertionError, saying what did not happen."""
    deadline = time.monotonic() + DEADLINE
    while not condition():
        assert time.monotonic() < deadline, f"{what}: not within {DEADLINE} s"
        await asyncio.sleep(_PAUSE)


def processor(answer: Answer, server: str = "dns://:53") -> QueryProcessor:
    """Make a processor whose root block is one function."""
    return QueryProcessor(server, BlockChoice.by_zone({ROOT: answer}))


async def asked_address(request: Request) -> Reply:
    """Answer with the address that was asked, whatever the question."""
    packed = rdata.address(request.local.address)
    rrtype = RRType.A if len(packed) == 4 else RRType.AAAA
    return Reply(answer=(RR(request.query.qname, rrtype, 0, packed),), aa=True)


def query(
    qname: str = "example.org", rrtype: str = "A", number: int = 1, **options: Any
) -> dns.message.QueryMessage:
    """Make a query with an ID of its own; options are those of dns.message.make_query."""
    return dns.message.make_query(qname, rrtype, id=number, **options)


def summary(wire: bytes) -> str:
    """Put a reply on one line: ID, rcode, flags, and the records of each section with their TTLs."""
    message = dns.message.from_wire(wire)
    flags = dns.flags.to_text(message.flags).lower()
    sections = [
        " ".join(text for rrset in section for text in sorted(rrset.to_text().split("\n")))
        for section in (message.answer, message.authority, message.additional)
    ]
    return f"{message.id} {dns.rcode.to_text(message.rcode())} {flags} | " + " | ".join(sections)


class UdpClient:
    """A UDP socket that waits without blocking the loop; a context."""

    def __init__(self, family: socket.AddressFamily = socket.AF_INET) -> None:
        self.sock = socket.socket(family, socket.SOCK_DGRAM)
        self.sock.setblocking(False)
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.sock.close()

    async def receive(self) -> tuple[bytes, str]:
        """The next datagram, and the address that it came from."""
        found: list[tuple[bytes, str]] = []

        def arrived() -> bool:
            try:
                wire, address = self.sock.recvfrom(65535)
            except BlockingIOError:
                return False
            found.append((wire, address[0]))
            return True

        await until(arrived, "a datagram")
        return found[0]

    async def ask(self, wire: bytes, address: tuple[str, int]) -> tuple[bytes, str]:
        """Send one datagram and take the next one that comes."""
        self.sock.sendto(wire, address)
        return await self.receive()


class TcpClient:
    """A TCP connection that sends and receives frames; an asynchronous context."""

    def __init__(self, address: tuple[str, int]) -> None:
        self._address = address

    async def __aenter__(self) -> Self:
        self.reader, self.writer = await asyncio.open_connection(*self._address)
        return self

    async def __aexit__(self, *error: object) -> None:
        self.writer.close()

    def send(self, *messages: bytes) -> None:
        """Send messages in one write."""
        self.writer.write(b"".join(len(wire).to_bytes(2, "big") + wire for wire in messages))

    async def receive(self) -> bytes:
        """The next message; raise TimeoutError, or IncompleteReadError at the end."""
        async with asyncio.timeout(DEADLINE):
            size = int.from_bytes(await self.reader.readexactly(2), "big")
            return await self.reader.readexactly(size)

    async def has_ended(self) -> bool:
        """Whether the server has closed, with nothing more sent."""
        try:
            async with asyncio.timeout(DEADLINE):
                return await self.reader.read(1) == b""
        except ConnectionError:
            return True
