"""A DNS server in a thread that answers every query with its own header, NOERROR, and one A record."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

RECORD = b"\xc0\x0c\0\1\0\1\0\0\0\5\0\4\x0a\0\0\1"


def answer(query: bytes) -> bytes:
    """The reply to a query without EDNS."""
    return query[:2] + b"\x84\0\0\1\0\1\0\0\0\0" + query[12:] + RECORD


@contextmanager
def server(reply: bytes | None = None, *, ignored: int = 0) -> Iterator[int]:
    """Serve on loopback; yield the port.  `reply` in place of an answer, after so many queries without one."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.bind(("127.0.0.1", 0))
        port = sock.getsockname()[1]

        def serve() -> None:
            left = ignored
            while True:
                query, client = sock.recvfrom(4096)
                if not query:
                    return
                if left:
                    left -= 1
                    continue
                sock.sendto(answer(query) if reply is None else reply, client)

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield port
        finally:
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as end:
                while thread.is_alive():  # asked again: a queue full of queries drops it
                    end.sendto(b"", ("127.0.0.1", port))
                    thread.join(0.1)
