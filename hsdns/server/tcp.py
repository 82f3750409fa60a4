"""DNS over TCP (RFC 7766): splits the stream with wire/framing.py, and answers queries as their replies become ready.

Path: steps 1 and 7 for TCP, and for TLS inside of tls.py.
Rule 1: queries on one connection are answered concurrently, so that a slow one does not delay the others.  Only the
        messages of one reply are sent without others between them: replies behind a zone transfer wait for its end.
Rule 2: everything that a client can use is limited: queries in progress, idle time, incomplete messages, unread
        replies.  The octets of messages and replies are limited over all connections together, too (admission.py).
Rule 3: the connections of all clients share the event loop fairly (admission.py).  A step handles one message that the
        answer table cannot answer, or KNOWN messages that it can, and one message of a reply of several.  Received
        octets are split into messages only when these are handled.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Iterator
from typing import Final

from hsdns import eager
from hsdns.plugins.timeouts import UNLIMITED
from hsdns.server.tcp_listener import Connection, TcpListener
from hsdns.wire.encode import MAX_TCP_LEN
from hsdns.wire.framing import FrameBuffer, frame

log = logging.getLogger("hsdns.server")

KNOWN: Final = 16  # messages in one step, if the answer table can answer them
# Octets of replies on a connection in one iteration of the loop; after that it can be seen whether the client reads
# them.
MAX_OCTETS: Final = 65_536
# Queries in progress on one connection; at this number, received messages wait and reading pauses.
MAX_IN_WORK: Final = 128


class TcpServer(TcpListener):
    """Accepts on one bound TCP socket of a plain or tls:// key."""

    def make_connection(self) -> TcpConnection:
        """Make the protocol of one connection."""
        return TcpConnection(self)


class TcpConnection(Connection):
    """One client's connection."""

    def __init__(self, server: TcpListener) -> None:
        super().__init__(server)
        self.in_work = 0
        self._frames = FrameBuffer()
        self._rest: Iterator[bytes] | None = None  # of the reply whose first message is written
        self._announced: Iterator[bytes] | None = None  # the rest of the next reply for _send()
        # Replies that were completed meanwhile, with their rest; no more than queries in progress.
        self._held: deque[tuple[bytes, Iterator[bytes] | None]] = deque()
        self._out: list[bytes] = []  # framed replies of this iteration
        self._out_octets = 0
        self._is_stepping = False
        self._taken = 0  # number of messages
        self._client_has_ended = self._said_end = False

    def data_received(self, data: bytes) -> None:
        """Queue the octets, and answer the messages that are complete."""
        if self._ended:
            return
        now = self._last_used = self._server.clock()
        self._server.touch(self)
        self._frames.add(data)
        if self._frames.has_message:
            self._partial_since = None  # set when the messages before it are handled
            self._go_on()
        elif self._partial_since is None:
            self._partial_since = now
        if self._is_paused or self._partial_since is not None:
            self._count()

    def eof_received(self) -> bool:
        """Half-closed by the client: queries in progress are still answered."""
        self._ended = self._client_has_ended = True
        self._partial_since = None  # the rest of it will not arrive
        return self.pending > 0 or super().eof_received()

    def connection_lost(self, exc: Exception | None) -> None:
        """Free the connection."""
        super().connection_lost(exc)
        self._frames.clear()
        self._break_off()

    @property
    def pending(self) -> int:  # type: ignore[override] # computed
        """The number of queries in progress; all waiting messages count as one."""
        return self.in_work + self._frames.has_message

    def end(self) -> None:
        """Accept no more queries, half-close the connection, and close it when the client does."""
        self._ended = True
        self._partial_since = None
        self._frames.clear()
        if self._transport is not None and not self._transport.is_closing():
            self._finish(self._transport)

    def step(self) -> bool:
        """Handle the next messages, and continue a long reply; return whether the next step may follow."""
        self._is_stepping = True  # immediate replies are sent at the end of this iteration
        try:
            if self._rest is not None:
                self._write_more(self._rest)
            elif self.in_work < MAX_IN_WORK:
                self._answer_next()
        finally:
            self._is_stepping = False
        return self._may_step()

    def end_turn(self) -> None:
        """Send the replies, and resume reading if no message waits."""
        transport, out = self._transport, self._out
        if transport is None:
            out.clear()
            return
        if out:
            self._write_out(transport, b"".join(out))
            out.clear()
            self._server.processor.flush()
        self._out_octets = 0
        if self._ended:
            if not self.pending:
                self._finish(transport)
        elif self._partial_since is None and self._frames.is_partial:
            self._partial_since = self._last_used
        if self._counted:
            self._count()
        self._go_on()

    def _may_step(self) -> bool:
        return (
            self._blocked_since is None
            and self._out_octets < MAX_OCTETS
            and (
                self._rest is not None or (self.in_work < MAX_IN_WORK and self._frames.has_message)
            )
        )

    def _is_busy(self) -> bool:
        return self.in_work >= MAX_IN_WORK or self._frames.has_message

    def _octets(self) -> int:
        return self._frames.octets + sum(len(reply) for reply, _ in self._held)

    def _answer_next(self) -> None:
        """Answer one message in a chain, or up to KNOWN from the answer table."""
        server, take = self._server, self._frames.take
        processor, now = server.processor, server.clock()
        lookup, most = processor.lookup, server.settings.limits.max_queries
        for _ in range(KNOWN):
            message = take()
            if message is None:
                return
            self._taken += 1
            self._has_asked = True
            if most != UNLIMITED and self._taken >= most:  # the connection ends after this message
                self._ended = True
                self._frames.clear()
            if lookup is not None:
                reply = lookup(message, client=self._address, limit=MAX_TCP_LEN, now=now)
                if reply is None and processor.make(message, now):
                    reply = lookup(message, client=self._address, limit=MAX_TCP_LEN, now=now)
                if reply is not None:
                    self._out.append(frame(reply))
                    self._out_octets += len(reply)
                    if self._out_octets < MAX_OCTETS:
                        continue
                    return
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
            return

    def _write(self, reply: bytes) -> None:
        """Send a reply, at the end of the iteration if one is running."""
        if self._is_stepping:
            self._out.append(frame(reply))
            self._out_octets += len(reply)
        elif self._transport is not None:
            self._write_out(self._transport, frame(reply))
            self._server.processor.flush()

    def _send(self, reply: bytes | None) -> None:
        self.in_work -= 1
        rest, self._announced = self._announced, None
        transport = self._transport
        if transport is None:
            return
        self._last_used = self._server.clock()
        if reply is not None:
            self._held.append((reply, rest))
            self._write_held()
            if self._held:
                self._count()
        if not self._is_stepping:
            if self._ended and not self.pending:
                self._finish(transport)
            elif self._rest is not None or self.in_work == MAX_IN_WORK - 1:
                self._go_on()

    def _write_held(self) -> None:
        """Write the completed replies, up to the first message of a reply of several."""
        while self._rest is None and self._held:
            reply, self._rest = self._held.popleft()
            self._write(reply)

    def _finish(self, transport: asyncio.Transport) -> None:
        """Close, or let the client close first: closing with unread queries would send RST."""
        if self._client_has_ended:
            transport.close()
        elif not self._said_end:
            self._said_end = True
            try:
                transport.write_eof()
            except OSError:  # the client has reset the connection, and the loop has not noticed yet
                transport.abort()
            else:
                transport.resume_reading()

    def _take_more(self, messages: Iterator[bytes]) -> None:
        """Accept the rest of a reply of several messages; called right before _send() with the first."""
        self.in_work += 1
        self._announced = messages

    def _write_more(self, rest: Iterator[bytes]) -> None:
        """Write one message of a long reply, and after its last message the replies that waited for it."""
        transport = self._transport
        if transport is None:
            return
        if self._said_end or transport.is_closing():
            self._break_off()
            return
        try:
            message = next(rest, None)
        except Exception:
            log.exception("a reply of several messages breaks off: %s", self._client.address)
            transport.abort()  # the client must not take the messages that it has for the whole reply
            return
        if message is None:
            self._rest = None
            self.in_work -= 1
            self._write_held()
        else:
            self._last_used = self._server.clock()
            self._write(message)

    def _break_off(self) -> None:
        """Discard the rest of a long reply, and the replies behind it."""
        self._rest = None
        self._held.clear()
