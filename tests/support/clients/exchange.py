"""One query and its reply, as octets, over a socket of its own.

Path: the drivers of tests/test_scenarios.py, and node_process.py -> a server.
"""

from __future__ import annotations

import asyncio

Address = tuple[str, int]
PROBE_IDS = (b"\xff\xf0", b"\xff\xf1", b"\xff\xf2")
PROBE = bytes.fromhex("0000 0001 0000 0000 0000 07 696e76616c6964 00 0001 0001")  # invalid. A
REPLY_DEADLINE = 30.0  # seconds; a reply takes milliseconds on an idle machine


class _Datagrams(asyncio.DatagramProtocol):
    def __init__(self) -> None:
        self._received: asyncio.Queue[bytes | Exception] = asyncio.Queue()

    def datagram_received(self, data: bytes, addr: object) -> None:
        self._received.put_nowait(data)

    def error_received(self, exc: Exception) -> None:
        self._received.put_nowait(exc)

    async def next(self) -> bytes:
        """Wait for a datagram; raise the error that the kernel reports for a closed port."""
        received = await self._received.get()
        if isinstance(received, Exception):
            raise received
        return received


async def ask_udp(address: Address, wire: bytes) -> bytes:
    """Send a datagram and wait for the next one; raise TimeoutError or ConnectionRefusedError."""
    transport, datagrams = await _open(address)
    try:
        transport.sendto(wire)
        async with asyncio.timeout(REPLY_DEADLINE):
            return await datagrams.next()
    finally:
        transport.close()


async def is_silent(address: Address, wire: bytes) -> bool:
    """Send a datagram, then well-formed queries in turn; return whether only those get replies.

    This needs no timeout: a server that replies at all does so nearly in order.
    """
    transport, datagrams = await _open(address)
    try:
        transport.sendto(wire)
        async with asyncio.timeout(REPLY_DEADLINE):
            for probe_id in PROBE_IDS:
                transport.sendto(probe_id + PROBE)
                if (await datagrams.next())[:2] != probe_id:
                    return False
        return True
    finally:
        transport.close()


async def ask_tcp(address: Address, wire: bytes) -> bytes:
    """Send one framed message over a connection of its own; raise TimeoutError."""
    reader, writer = await asyncio.open_connection(*address)
    try:
        writer.write(len(wire).to_bytes(2, "big") + wire)
        async with asyncio.timeout(REPLY_DEADLINE):
            size = int.from_bytes(await reader.readexactly(2), "big")
            return await reader.readexactly(size)
    finally:
        writer.close()


async def _open(address: Address) -> tuple[asyncio.DatagramTransport, _Datagrams]:
    return await asyncio.get_running_loop().create_datagram_endpoint(
        _Datagrams, remote_addr=address
    )
