"""The minimal DNS server in Python: a uvloop datagram endpoint and one dict of complete queries.

Path: `python dict_server.py PORT PAIRS`; nothing imports it.  PAIRS is a file of alternating queries and
replies, each with its length in two octets before it, as over TCP.  The server answers a query only if all its octets
except the ID match; it rotates and counts nothing.
"""

import asyncio
import sys
from pathlib import Path
from typing import cast

import uvloop


def pairs(data: bytes) -> dict[bytes, bytes]:
    """Read the queries and their replies, both without ID."""
    messages, at = [], 0
    while at < len(data):
        end = at + 2 + int.from_bytes(data[at : at + 2], "big")
        messages.append(data[at + 4 : end])
        at = end
    return dict(zip(messages[::2], messages[1::2], strict=True))


class Answers(asyncio.DatagramProtocol):
    """Looks up queries and sends their replies."""

    def __init__(self, known: dict[bytes, bytes]) -> None:
        self._known = known

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Store the transport."""
        # uvloop's transport is not a subclass of asyncio.DatagramTransport.
        self._send = cast(asyncio.DatagramTransport, transport).sendto

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        """Answer a known query."""
        reply = self._known.get(data[2:])
        if reply is not None:
            self._send(data[:2] + reply, addr)


async def serve(port: int, known: dict[bytes, bytes]) -> None:
    """Serve until the process is terminated."""
    loop = asyncio.get_running_loop()
    await loop.create_datagram_endpoint(lambda: Answers(known), ("127.0.0.1", port))
    await asyncio.Event().wait()


if __name__ == "__main__":
    uvloop.run(serve(int(sys.argv[1]), pairs(Path(sys.argv[2]).read_bytes())))
