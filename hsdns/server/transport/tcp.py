"""DNS over TCP (RFC 7766): splits the stream with wire/framing.py, and answers queries as their replies become ready.

Path: steps 1 and 7 for TCP, and for TLS inside of connection.py.
Rule 1: queries on one connection are answered concurrently, so that a slow one does not delay the others.  Only the
        messages of one reply are sent without others between them: replies behind a zone transfer wait for its end.
Rule 2: everything that a client can use is limited: queries in progress, idle time, incomplete messages, unread
        replies.  The octets of messages and replies are limited over all connections together, too (admission.py).
Rule 3: the connections of all clients share the event loop fairly (admission.py).  A step handles up to KNOWN messages
        that the answer table can answer, in one call, and one that it cannot, or one message of a reply of several.
        Where no connection waits for its turn, the first step is made as the octets come, and costs no line.

What all connections of DNS do, over TCP, TLS and HTTPS (doh.py):
Rule 1: the number of connections and of the octets kept for them is limited over all listeners (admission.py); timeouts
        are checked once a second (SWEEP_INTERVAL).
"""

from __future__ import annotations

import asyncio
import functools
import logging
import socket
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Final, cast

from hsdns import eager
from hsdns.chain import Endpoint
from hsdns.plugins.timeouts import UNLIMITED
from hsdns.query import QueryProcessor
from hsdns.server.transport.admission import FREE_OCTETS, NO_FAULTS, Admission, client_of
from hsdns.server.transport.connection import Connection, TlsConnection
from hsdns.server.transport.sockets import (
    BACKLOG,
    DEFAULT_SETTINGS,
    Settings,
    endpoint_of,
    socket_address,
)
from hsdns.turns import Timer
from hsdns.wire.framing import FrameBuffer, frame

SWEEP_INTERVAL: Final = 1.0  # seconds


class DnsConnection(Connection):
    """A connection with DNS messages: its place, and when it is closed."""

    free = FREE_OCTETS

    def __init__(self, server: TcpListener) -> None:
        super().__init__(server.places, server.turns)
        self._server = server
        self._client = self._local = Endpoint("", 0)
        self._address = b""  # the client's address in the kernel's form
        self._last_used = server.clock()
        self._has_asked = False
        self._partial_since: float | None = None  # since when a message is incomplete
        self._blocked_since: float | None = None  # since when the client does not read its replies
        self._unread = 0  # octets that were written and have not all been sent
        self._encrypted = 0  # octets that wait for TLS

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Register the new connection."""
        self._transport = cast("asyncio.Transport", transport)  # uvloop's has another class
        ends = self._server.admit(self, self._transport)
        if ends is not None:
            self._client, self._local = ends
            self._address = socket_address(self._client)
            self._transport.set_write_buffer_limits(FREE_OCTETS)
            self.client = client_of(self._client.address)

    def connection_lost(self, exc: Exception | None) -> None:
        """Free the connection."""
        self._transport = None
        self._server.discard(self)

    def pause_writing(self) -> None:
        """Pause answering and reading while the client does not read its replies."""
        self._blocked_since = self._server.clock()
        self._go_on()

    def resume_writing(self) -> None:
        """Resume when the client reads its replies."""
        self._blocked_since = None
        self._unread = 0
        self._count()
        self._go_on()

    def count_encrypted(self, octets: int) -> None:
        """Count the octets that wait to be decrypted."""
        self._encrypted = octets
        self._count()

    def expire(self, now: float) -> None:
        """Close if the client was silent, sent too slowly or did not read its replies for too long."""
        transport = self._transport
        if transport is None:
            return
        limits = self._server.settings.limits
        unread_since = self._unsent_since(now)
        # A closed transport waits without limit for the client to read the rest, so it is checked, too.
        if transport.get_write_buffer_size():
            blocked_since = self._last_used if self._blocked_since is None else self._blocked_since
            unread_since = min(unread_since, blocked_since)
        if now - unread_since > limits.write:
            transport.abort()
        elif self._partial_since is not None and now - self._partial_since > limits.read:
            transport.close()  # a client that sends an octet a second is late, too
        elif not self.pending and now - self._last_used > (
            limits.idle if self._has_asked else limits.read
        ):
            transport.close()

    def _octets(self) -> int:
        """The octets that are kept: of messages, and of replies, whether or not they are written."""
        return self._unread + self._encrypted

    def _unsent_since(self, now: float) -> float:
        """When the oldest reply was made that the client does not accept yet, of those that are not written."""
        return now

    def _is_busy(self) -> bool:
        """Whether the client does not read its replies."""
        return self._blocked_since is not None

    def _write_out(self, transport: asyncio.Transport, octets: bytes) -> None:
        transport.write(octets)
        if self._blocked_since is not None:
            self._unread += len(octets)  # all of them, until the last one is sent
            self._count()


class TcpListener:
    """Accepts on one bound TCP socket; `processor` and `settings` may be replaced at any time.

    `faults` has the effects of rules of faults on it.
    """

    faults = NO_FAULTS
    alpn: Sequence[str] = ()  # versions of HTTP that it offers over TLS

    def __init__(
        self,
        sock: socket.socket,
        processor: QueryProcessor,
        shared: Admission,
        settings: Settings = DEFAULT_SETTINGS,
    ) -> None:
        self.processor = processor
        self.settings = settings
        self.spawn, self.clock, self.places, self.turns, self._rejected, self._credit = shared
        self.connections: set[DnsConnection] = set()
        self.sock = sock  # only this listener accepts from it
        self._server: asyncio.Server | None = None
        self._sweeper: Timer | None = None
        self._is_closed = False

    async def start(self) -> None:
        """Start accepting."""
        loop = asyncio.get_running_loop()
        # All waiting connections are accepted in one iteration of the loop; connections that are closed to make room
        # for them only close after it.
        backlog = min(BACKLOG, max(1, self.places.most // 4))
        self._server = await loop.create_server(self._begin, sock=self.sock, backlog=backlog)
        self._sweeper = Timer(loop, SWEEP_INTERVAL, self._sweep)

    def stop_accepting(self) -> None:
        """Accept no new connections; open ones continue."""
        if self._server is not None:
            self._server.close()
            self._server = None

    def end(self) -> None:
        """End the connections; a client that is told the end before its connection closes gets no reset."""
        for connection in tuple(self.connections):
            connection.end()

    def close(self) -> None:
        """Close all connections; a client that does not read its replies has until its timeout, and no longer."""
        self.stop_accepting()
        for connection in tuple(self.connections):
            connection.close()
        self._is_closed = True
        if not self.connections and self._sweeper is not None:
            self._sweeper.cancel()

    def kill(self) -> None:
        """Close all connections at once, as the kernel does for a process that has ended."""
        for connection in tuple(self.connections):
            connection.abort()
        self.close()

    @property
    def pending(self) -> int:
        """The number of queries in progress."""
        return sum(connection.pending for connection in self.connections)

    def admit(
        self, connection: DnsConnection, transport: asyncio.Transport
    ) -> tuple[Endpoint, Endpoint] | None:
        """Register a new connection and return its endpoints; abort it if there are too many, or if it has ended.

        It is also aborted if the connections of its address would wait too long for credit; until there is some,
        nothing is read from it.

        A connection that was accepted right before the listener closed is aborted too, because nothing would end it
        later.
        """
        client, local = (transport.get_extra_info(name) for name in ("peername", "sockname"))
        if client is not None and local is not None and not self._is_closed:
            ends = endpoint_of(client), endpoint_of(local)
            address = ends[0].address
            wait: float | None = 0.0
            if self._credit is not None and self.settings.tls is not None:
                wait = self._credit.connect(address, self.clock())
            if wait is not None and self.places.take(connection, transport, address):
                self.connections.add(connection)
                if wait:
                    transport.pause_reading()
                    self._call_later(wait, functools.partial(_begin_reading, transport))
                return ends
            self._rejected.inc()
        transport.abort()
        return None

    def discard(self, connection: Connection) -> None:
        """Free a connection."""
        self.connections.discard(connection)
        self.places.release(connection)

    def make_connection(self) -> DnsConnection:
        """Make the protocol of one connection."""
        return TcpConnection(self)

    def wrap(self, connection: DnsConnection, inside: asyncio.Protocol) -> asyncio.Protocol:
        """Wrap the protocol `inside`, which leads to a connection, in TLS, if the listener has a certificate."""
        tls = self.settings.tls
        if tls is None:
            return inside
        if self.alpn:
            tls.set_alpn_protocols(self.alpn)
        return TlsConnection(
            inside, tls, is_http=bool(self.alpn), turns=self.turns, connection=connection
        )

    def _begin(self) -> asyncio.Protocol:
        connect = self.faults.connect
        if connect is not None:
            return connect(self)
        connection = self.make_connection()
        return self.wrap(connection, connection)

    def _sweep(self) -> None:
        now = self.clock()
        for connection in tuple(self.connections):
            connection.expire(now)
        if self._is_closed and not self.connections:
            return
        self._sweeper = Timer(asyncio.get_running_loop(), SWEEP_INTERVAL, self._sweep)

    def _call_later(self, seconds: float, call: Callable[[], None]) -> asyncio.TimerHandle:
        return asyncio.get_running_loop().call_later(seconds, call)


def _begin_reading(transport: asyncio.Transport) -> None:
    if not transport.is_closing():
        transport.resume_reading()


log = logging.getLogger("hsdns.server")

KNOWN: Final = 16  # messages in one step, if the answer table can answer them
# Octets of replies on a connection in one iteration of the loop; after that it can be seen whether the client reads
# them.
MAX_OCTETS: Final = 65_536
TOUCHING: Final = 0.05  # seconds; a connection is as silent as another one within this time
# Queries in progress on one connection; at this number, received messages wait and reading pauses.
MAX_IN_WORK: Final = 128


class TcpConnection(DnsConnection):
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
        self._is_miss = False  # the answer table does not know the next message
        self._is_stepping = False
        self._taken = 0  # number of messages
        self._touched = 0.0  # when its place was told of data
        self._client_has_ended = self._said_end = False

    def data_received(self, data: bytes) -> None:
        """Answer the messages that are complete; those that the table does not know take turns."""
        if self._ended:
            return
        server, frames, turns = self._server, self._frames, self._turns
        now = self._last_used = server.clock()
        if now - self._touched >= TOUCHING:
            self._touched = now
            self._places.touch(self)
        is_unlimited = server.settings.limits.max_queries == UNLIMITED
        if is_unlimited and not frames.octets and self._can_answer() and turns.has_room:
            replies, at = self._answer_known(data, 0, now, KNOWN)
            turns.count(now)
            if replies and self._transport is not None:
                self._write_out(self._transport, replies)
            if at == len(data):
                return
            data = data[at:]
        frames.add(data)
        if frames.has_message:
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
        return self.pending > 0

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
            elif self._can_answer():
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
        if self._blocked_since is not None or self._out_octets >= MAX_OCTETS:
            return False
        return self._rest is not None or (self._frames.has_message and self._can_answer())

    def _can_answer(self) -> bool:
        """Whether the next message may be answered."""
        return self.in_work < MAX_IN_WORK and self._rest is None and self._blocked_since is None

    def _is_busy(self) -> bool:
        is_held = self._frames.has_message or self.in_work >= MAX_IN_WORK
        return is_held or self._blocked_since is not None

    def _octets(self) -> int:
        held = sum(len(reply) for reply, _ in self._held)
        return super()._octets() + len(self._frames.octets) + held

    def _answer_known(self, data: bytes, at: int, now: float, most: int) -> tuple[bytes, int]:
        """Answer up to `most` messages from the answer table; return the replies, and where the next message begins."""
        table = self._server.processor.table
        if table is None:
            self._is_miss = True
            return b"", at
        replies, at, count, self._is_miss = table.answer_framed(
            data, at, self._address, most, MAX_OCTETS - self._out_octets, now
        )
        if count:
            self._taken += count
            self._has_asked = True
        return replies, at

    def _answer_next(self) -> None:
        """Answer messages from the answer table, then one that it does not know in a chain."""
        server, frames = self._server, self._frames
        processor, now, most = server.processor, server.clock(), server.settings.limits.max_queries
        if not self._is_miss:
            limit = KNOWN if most == UNLIMITED else 1
            replies, at = self._answer_known(frames.octets, frames.at, now, limit)
            if replies:
                self._out.append(replies)
                self._out_octets += len(replies)
                frames.skip_to(at)
        message = frames.take() if self._is_miss else None
        if message is not None:
            self._taken += 1
            self._has_asked = True
        if most != UNLIMITED and self._taken >= most:  # the connection ends after this message
            self._ended = True
            frames.clear()
        if message is None:
            return
        self._is_miss = False
        reply = processor.made(message, self._address, now)
        if reply is not None:
            self._write(reply)
            return
        self.in_work += 1
        try:
            eager.start(
                processor.answer(message, self._client, self._local, "tcp", now, self._take_more),
                self._send,
                server.spawn,
            )
        except BaseException:
            self.in_work -= 1
            raise

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
