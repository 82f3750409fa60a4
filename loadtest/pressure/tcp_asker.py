"""Sends queries for new names over one TCP connection at a steady rate, and reads the replies.

    python -m loadtest.pressure.tcp_asker PORT RATE SECONDS SUFFIX

Path: clients.py starts it -> the server under test.
Rule 1: a reply after more than two seconds is none.  A connection that ends is opened again.
Prints one line of JSON: queries, replies, and milliseconds from one to the other.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
import time
from collections.abc import Sequence

from hsdns.wire.framing import FrameBuffer, frame
from loadtest.answering.cluster import Question
from loadtest.answering.packets import query_of
from loadtest.figures import percentile

_TIMEOUT = 2.0


class TcpAsker(asyncio.Protocol):
    """One connection after the other; replies are matched by ID."""

    def __init__(self) -> None:
        self.delays: list[float] = []
        self.transport: asyncio.Transport | None = None
        self.sent_at: dict[int, float] = {}
        self._frames = FrameBuffer()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin."""
        assert isinstance(transport, asyncio.Transport)
        self.transport, self._frames = transport, FrameBuffer()

    def connection_lost(self, exc: Exception | None) -> None:
        """Remember that there is none."""
        self.transport = None

    def data_received(self, data: bytes) -> None:
        """Count whole replies."""
        for reply in self._frames.feed(data):
            asked = self.sent_at.pop(int.from_bytes(reply[:2], "big"), None)
            if asked is not None and time.monotonic() - asked <= _TIMEOUT:
                self.delays.append(time.monotonic() - asked)


async def ask(port: int, rate: float, seconds: float, suffix: str) -> dict[str, float]:
    """Ask for some seconds; return the counts."""
    loop, asker = asyncio.get_running_loop(), TcpAsker()
    began, sent = time.monotonic(), 0
    while time.monotonic() < began + seconds:
        if asker.transport is None:
            with contextlib.suppress(OSError, TimeoutError):
                async with asyncio.timeout(_TIMEOUT):
                    await loop.create_connection(lambda: asker, "127.0.0.1", port)
        sent += 1
        if asker.transport is not None:
            query = query_of(Question(f"n{os.getpid()}-{sent}.{suffix}", "A"), edns=False)
            asker.transport.write(frame((sent & 0xFFFF).to_bytes(2, "big") + query[2:]))
            asker.sent_at[sent & 0xFFFF] = time.monotonic()
        await asyncio.sleep(max(0.0, began + sent / rate - time.monotonic()))
    await asyncio.sleep(1.0)  # for the last replies
    found = asker.delays
    return {
        "offered": round(rate * seconds),
        "sent": sent,
        "answered": len(found),
        "p50_us": percentile(found, 0.5) * 1e6 if found else 0,
        "p99_us": percentile(found, 0.99) * 1e6 if found else 0,
        "worst_us": max(found, default=0) * 1e6,
    }


def main(words: Sequence[str]) -> None:
    """Ask, and print the counts."""
    port, rate, seconds, suffix = words
    print(json.dumps(asyncio.run(ask(int(port), float(rate), float(seconds), suffix))))


if __name__ == "__main__":
    main(sys.argv[1:])
