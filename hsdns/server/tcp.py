"""DNS over TCP (RFC 7766): pump bytes through wire/framing.py, answer every message, in whatever order answers come.

Path: steps 1 and 7 for TCP, and for TLS inside of tls.py.
Rule 1: queries on one connection are answered side by side; a slow one does not hold up the rest.
Rule 2: all that a client can use is bounded: queries in progress, silence, half messages, unread replies.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Iterator
from typing import Final, cast

from hsdns import eager
from hsdns.chain import Endpoint
from hsdns.plugins.timeouts import UNLIMITED
from hsdns.server.datagram import socket_address
from hsdns.server.tcp_listener import TcpListener
from hsdns.wire.encode import MAX_TCP_LEN
from hsdns.wire.framing import FrameBuffer, frame

log = logging.getLogger("hsdns.server")

BATCH_LEN: Final = 64  # messages of one connection in a turn of the loop; then others get theirs
TURN: Final = (
    0.0005  # seconds; of what the answer table does not know, at most so much in a turn, too
)
# Octets from the answer table in a turn of the loop; then it shows whether the client takes them.
MAX_TABLE_OCTETS: Final = 65_536
# Queries of one connection; the rest of what was read waits, and reading pauses.
MAX_IN_WORK: Final = 128


class TcpServer(TcpListener):
    """Accepts on one bound TCP socket of a plain or tls:// key."""

    def make_connection(self) -> asyncio.Protocol:
        """Make what speaks with one client."""
        return TcpConnection(self)


class TcpConnection(asyncio.Protocol):
    """One client's connection."""

    def __init__(self, server: TcpServer) -> None:
        self.in_work = 0
        self._server = server
        self._frames = FrameBuffer()
        self._waiting: deque[bytes] = deque()  # at most what came with one read
        self._more: deque[Iterator[bytes]] = deque()  # of replies whose first message is written
        self._writes_more = False
        self._is_answering = False
        self._is_paused = False
        self._left_in_turn = BATCH_LEN
        self._has_next_turn = False
        self._transport: asyncio.Transport | None = None
        self._client = self._local = Endpoint("", 0)
        self._address = b""  # the client's, as the kernel writes it
        self._last_used = server.clock()
        self._partial_since: float | None = None
        self._taken = 0  # messages
        self._blocked_since: float | None = None
        self._ended = False  # no more messages are taken
        self._client_has_ended = self._said_end = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take the connection in."""
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is one in all but class
        ends = self._server.admit(self, self._transport)
        if ends is not None:
            self._client, self._local = ends
            self._address = socket_address(self._client)

    def data_received(self, data: bytes) -> None:
        """Answer the messages that are complete."""
        if self._ended:
            return
        now = self._last_used = self._server.clock()
        self._server.touch(self)
        messages = self._frames.feed(data)
        if not self._frames.is_partial:
            self._partial_since = None
        elif messages or self._partial_since is None:
            self._partial_since = now
        if messages:
            self._take(messages)
            self._go_on()

    def eof_received(self) -> bool:
        """Half-closed by the client: what is in progress is still answered."""
        self._ended = self._client_has_ended = True
        self._partial_since = None  # the rest of it will not come
        return self.pending > 0

    def _take(self, messages: list[bytes]) -> None:
        """Put messages in the queue; after the last one that is allowed the connection ends."""
        most = self._server.settings.limits.max_queries
        if most != UNLIMITED and self._taken + len(messages) >= most:
            messages = messages[: most - self._taken]
            self._ended = True
            self._partial_since = None
        self._taken += len(messages)
        self._waiting += messages

    def pause_writing(self) -> None:
        """Stop answering and reading while the client does not take its replies."""
        self._blocked_since = self._server.clock()
        self._go_on()

    def resume_writing(self) -> None:
        """Go on once it does."""
        self._blocked_since = None
        self._write_more()
        self._go_on()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        self._transport = None
        self._waiting.clear()
        self._more.clear()
        self._server.discard(self)

    @property
    def pending(self) -> int:
        """How many queries have no answer yet."""
        return self.in_work + len(self._waiting)

    def end(self) -> None:
        """Take no more queries, send the end, and close when the client does."""
        self._ended = True
        self._partial_since = None
        self._waiting.clear()
        if self._transport is not None and not self._transport.is_closing():
            self._finish(self._transport)

    def close(self) -> None:
        """Close after what was written has gone out."""
        if self._transport is not None:
            self._transport.close()

    def expire(self, now: float) -> None:
        """Close if the client has sent nothing, sent too slowly or not read its replies for too long."""
        transport = self._transport
        if transport is None:
            return
        limits = self._server.settings.limits
        # A transport that was closed waits without end for a client to take the rest, so it too is looked at.
        unread_since = self._last_used if self._blocked_since is None else self._blocked_since
        if transport.get_write_buffer_size() and now - unread_since > limits.write:
            transport.abort()
        elif self._partial_since is not None and now - self._partial_since > limits.read:
            transport.close()  # a client that sends an octet a second is late too
        elif not self.pending and now - self._last_used > (
            limits.idle if self._taken else limits.read
        ):
            transport.close()

    def _go_on(self) -> None:
        """Take up waiting messages as far as allowed, and read only while none waits."""
        if self._is_answering:  # called from within, by a reply that came at once
            return
        self._is_answering = True
        known: list[bytes] = []
        try:
            self._answer_waiting(known)
        finally:
            self._is_answering = False
            transport = self._transport
            if known and transport is not None:
                transport.write(b"".join(known))
                if self._ended and not self.pending:
                    self._finish(transport)
        if self._left_in_turn <= 0 and not self._has_next_turn:
            self._has_next_turn = True
            asyncio.get_running_loop().call_soon(self._begin_turn)
        if self._transport is None or self._ended:
            return
        is_busy = self._is_busy()
        if is_busy != self._is_paused:
            self._is_paused = is_busy
            if is_busy:
                self._transport.pause_reading()
            else:
                self._transport.resume_reading()

    def _answer_waiting(self, known: list[bytes]) -> None:
        """Begin to answer the messages that wait; replies from the answer table are added to `known`, in frames."""
        server, waiting = self._server, self._waiting
        processor, now, octets = server.processor, server.clock(), 0
        end = now + TURN
        lookup = processor.lookup
        while waiting and not self._is_busy():
            message = waiting.popleft()
            self._left_in_turn -= 1
            if lookup is not None:
                reply = lookup(message, client=self._address, limit=MAX_TCP_LEN, now=now)
                if reply is not None:
                    known.append(frame(reply))
                    octets += len(reply)
                    if octets > MAX_TABLE_OCTETS:
                        self._left_in_turn = 0
                    continue
            self.in_work += 1
            try:
                eager.start(
                    processor.answer(
                        message, self._client, self._local, "tcp", now, self._take_more
                    ),
                    self._send,
                    server.spawn,
                )
            except BaseException:
                self.in_work -= 1
                raise
            if server.clock() >= end:
                self._left_in_turn = 0

    def _begin_turn(self) -> None:
        self._left_in_turn = BATCH_LEN
        self._has_next_turn = False
        self._go_on()

    def _is_busy(self) -> bool:
        return (
            self._left_in_turn <= 0
            or self.in_work >= MAX_IN_WORK
            or self._blocked_since is not None
        )

    def _send(self, reply: bytes | None) -> None:
        self.in_work -= 1
        transport = self._transport
        if transport is None:
            return
        self._last_used = self._server.clock()
        if reply is not None:
            transport.write(frame(reply))
            self._server.processor.flush()
        self._end_or_go_on(transport)

    def _end_or_go_on(self, transport: asyncio.Transport) -> None:
        if self._ended and not self.pending:
            self._finish(transport)
        elif self.in_work == MAX_IN_WORK - 1:
            self._go_on()

    def _finish(self, transport: asyncio.Transport) -> None:
        """Close, or let the client close first: to close with queries unread would send a reset."""
        if self._client_has_ended:
            transport.close()
        elif not self._said_end:
            self._said_end = True
            try:
                transport.write_eof()
            except OSError:  # the client has broken off, and the loop does not know of it yet
                transport.abort()
            else:
                transport.resume_reading()

    def _take_more(self, messages: Iterator[bytes]) -> None:
        """Take the rest of a reply of several messages; called right before _send() with the first."""
        self.in_work += 1
        self._more.append(messages)
        self._write_more_later()

    def _write_more_later(self) -> None:
        if not self._writes_more:
            self._writes_more = True
            asyncio.get_running_loop().call_soon(self._write_turn)

    def _write_turn(self) -> None:
        self._writes_more = False
        self._write_more()

    def _write_more(self) -> None:
        """Write one message of a long reply, unless the client has to read first; the next one in another turn."""
        transport = self._transport
        if transport is None or self._blocked_since is not None or not self._more:
            return
        if self._said_end or transport.is_closing():
            self._more.clear()
            return
        try:
            message = next(self._more[0], None)
        except Exception:
            log.exception("a reply of several messages breaks off: %s", self._client.address)
            transport.abort()  # the client must not take what it has for all of it
            return
        if message is None:
            self._more.popleft()
            self.in_work -= 1
            self._end_or_go_on(transport)
        else:
            self._last_used = self._server.clock()
            transport.write(frame(message))
            self._more.rotate(-1)
        if self._more:
            self._write_more_later()
