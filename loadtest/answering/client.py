"""Sends every query of a mix, to warm up a server and to record its replies.

Path: run.py -> here.
Rule 1: there are never more queries in flight than the receive buffer of every server holds.
Rule 2: a query without a reply is sent again; if there is still no reply, it is counted as unanswered.
"""

from __future__ import annotations

import select
import socket
from collections.abc import Callable, Sequence
from typing import Final

from hsdns.wire.framing import FrameBuffer, frame

WINDOW: Final = 100  # and less than 65,536 so that the ID tells queries apart
_TIMEOUT = 0.5  # seconds without any reply until the queries in flight are sent again
_ATTEMPTS = 4
_RECEIVE_BUFFER = 4 << 20
_MAX_MESSAGE_LEN = 65_535


class Unreachable(OSError):
    """The server does not answer at all."""


def ask_all(
    port: int,
    queries: Sequence[bytes],
    *,
    tcp: bool = False,
    on_progress: Callable[[int], None] = lambda done: None,
) -> list[bytes | None]:
    """Send all queries; return the replies in the same order, or None; call `tell` with the number done."""
    replies: list[bytes | None] = [None] * len(queries)
    if tcp:
        with socket.create_connection(("127.0.0.1", port), _TIMEOUT * _ATTEMPTS) as sock:
            for first in range(0, len(queries), WINDOW):
                _over_tcp(sock, queries, replies, first)
                on_progress(first)
        return replies
    with socket.socket(type=socket.SOCK_DGRAM) as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _RECEIVE_BUFFER)
        sock.connect(("127.0.0.1", port))
        for first in range(0, len(queries), WINDOW):
            _over_udp(sock, queries, replies, first)
            on_progress(first)
    return replies


def _over_udp(
    sock: socket.socket, queries: Sequence[bytes], replies: list[bytes | None], first: int
) -> None:
    missing = set(range(first, min(first + WINDOW, len(queries))))
    for _ in range(_ATTEMPTS):
        try:
            for index in missing:
                sock.send((index & 0xFFFF).to_bytes(2, "big") + queries[index][2:])
            while missing and select.select([sock], [], [], _TIMEOUT)[0]:
                reply = sock.recv(_MAX_MESSAGE_LEN)
                index = first + (int.from_bytes(reply[:2], "big") - first) % 0x10000
                if index in missing:
                    missing.discard(index)
                    replies[index] = reply
        except ConnectionRefusedError:  # not yet listening, or no longer
            continue
        if not missing:
            return


def _over_tcp(
    sock: socket.socket, queries: Sequence[bytes], replies: list[bytes | None], first: int
) -> None:
    last = min(first + WINDOW, len(queries))
    sock.sendall(
        b"".join(
            frame(index.to_bytes(2, "big") + queries[first + index][2:])
            for index in range(last - first)
        )
    )
    frames = FrameBuffer()
    missing = last - first
    while missing:
        data = sock.recv(_MAX_MESSAGE_LEN)
        if not data:
            raise Unreachable("the server ended the connection")
        for reply in frames.feed(data):
            replies[first + int.from_bytes(reply[:2], "big")] = reply
            missing -= 1


def is_answering(port: int, query: bytes, *, tcp: bool = False, records: bool = True) -> bool:
    """Whether the server answers a query; with `records`, whether the answer has records."""
    kind = socket.SOCK_STREAM if tcp else socket.SOCK_DGRAM
    try:
        with socket.socket(type=kind) as sock:
            sock.settimeout(_TIMEOUT / 2)
            sock.connect(("127.0.0.1", port))
            sock.sendall(frame(query) if tcp else query)
            reply = sock.recv(_MAX_MESSAGE_LEN)[2 if tcp else 0 :]
    except OSError:
        return False
    return len(reply) >= 12 and bool(reply[2] & 0x80) and (reply[6:8] != b"\0\0" or not records)
