"""DNS clients for tests with an event loop of their own: one UDP socket, one TCP connection.

Path: a test -> UdpClient or TcpClient -> a server in the same event loop.  They send and receive octets.
"""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Callable
from typing import Any, Final, Self

from tests.support.clients.messages import query
from tests.support.coroutines.event_loops import DEADLINE, until

AGAIN: Final = 5.0  # seconds; on loopback only a full buffer loses a datagram


class UdpClient:
    """A UDP socket that waits without blocking the loop; a context manager."""

    def __init__(self, family: socket.AddressFamily = socket.AF_INET) -> None:
        self.sock = socket.socket(family, socket.SOCK_DGRAM)
        self.sock.setblocking(False)
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
        self.repeated = set[
            bytes
        ]()  # the IDs of queries that were sent again, which may get two replies

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.sock.close()

    async def receive(self, again: Callable[[], object] = bool) -> tuple[bytes, str]:
        """The next datagram, and the address that it came from; `again` is called every AGAIN seconds meanwhile."""
        found: list[tuple[bytes, str]] = []
        due = time.monotonic() + AGAIN

        def arrived() -> bool:
            nonlocal due
            if time.monotonic() > due:
                due += AGAIN
                again()
            try:
                wire, address = self.sock.recvfrom(65535)
            except BlockingIOError:
                return False
            found.append((wire, address[0]))
            return True

        await until(arrived, "a datagram")
        return found[0]

    async def ask(self, wire: bytes, address: tuple[str, int]) -> tuple[bytes, str]:
        """Send one datagram, again where it may have been lost, and take the next one that comes."""

        def again() -> None:
            self.repeated.add(wire[:2])
            self.sock.sendto(wire, address)

        self.sock.sendto(wire, address)
        found = await self.receive(again)
        while found[0][:2] != wire[:2] and found[0][:2] in self.repeated:
            found = await self.receive(again)
        return found


class TcpClient:
    """A TCP connection that sends and receives frames; an asynchronous context manager."""

    def __init__(self, address: tuple[str, int], **options: Any) -> None:
        self._address, self._options = address, options

    async def __aenter__(self) -> Self:
        self.reader, self.writer = await asyncio.open_connection(*self._address, **self._options)
        return self

    async def __aexit__(self, *error: object) -> None:
        self.writer.close()

    def send(self, *messages: bytes) -> None:
        """Send messages in one write."""
        self.writer.write(b"".join(len(wire).to_bytes(2, "big") + wire for wire in messages))

    def ask(self, *numbers: int) -> None:
        """Send queries with these IDs in one write."""
        self.send(*(query(number=number).to_wire() for number in numbers))

    async def numbers(self, count: int) -> list[int]:
        """The IDs of the next messages."""
        return [int.from_bytes((await self.receive())[:2], "big") for _ in range(count)]

    async def receive(self) -> bytes:
        """The next message; raise TimeoutError, or IncompleteReadError at the end."""
        async with asyncio.timeout(DEADLINE):
            size = int.from_bytes(await self.reader.readexactly(2), "big")
            return await self.reader.readexactly(size)

    async def has_ended(self) -> bool:
        """Whether the server closes the connection without sending more."""
        try:
            async with asyncio.timeout(DEADLINE):
                return await self.reader.read(1) == b""
        except ConnectionError:
            return True
