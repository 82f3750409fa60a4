"""Connections that a rule of faults makes fail: refused, hung, slow, or reset in the middle of a reply.

Path: step 1 for TCP, TLS and HTTPS, as long as such a rule is active: tcp_listener.py accepts connections with it in
place of tcp.py and doh.py, whose protocols it uses after the rules have decided.
Rule 1: the rules decide when the client has connected.  A connection that no rule matches behaves like any other from
        then on.
Rule 2: `refuse` and `reset` send RST, as the kernel does for a socket that closes with SO_LINGER 0 (tcp(7)).  The
        server has accepted the connection before, so a refused client gets ECONNRESET instead of ECONNREFUSED.
Rule 3: `slow` imitates a slow network: the connection has passed on its octets already, so none of its timeouts counts
        them.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
from collections.abc import Callable, Sequence
from typing import Final, cast

from hsdns.chain import Endpoint
from hsdns.faults.action import ConnectionAction
from hsdns.faults.rules import Bite
from hsdns.server.sockets import endpoint_of
from hsdns.server.tcp_listener import Connection, FaultyTransport, TcpListener

Decide = Callable[[str, Endpoint, Endpoint], Sequence[Bite]]
Lifted = Callable[[], bool]
Around = Callable[[asyncio.Transport, Connection], FaultyTransport]
TICK: Final = (
    0.1  # seconds between two pieces of a slow connection, if a piece has at least one octet
)
HIGH: Final = 262_144  # octets waiting to be sent slowly, above which the connection writes no more
POLL: Final = 0.01  # seconds between two checks whether all octets are sent
_AT_ONCE: Final = struct.pack("ii", 1, 0)


class FaultyConnection(asyncio.Protocol):
    """A newly accepted connection; `decide` applies the rules to a server, a client and the local address."""

    def __init__(self, listener: TcpListener, decide: Decide) -> None:
        self._listener, self._decide = listener, decide

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Let the rules decide, and apply their decision."""
        outside = cast("asyncio.Transport", transport)  # uvloop's has another class
        ends = [transport.get_extra_info(name) for name in ("peername", "sockname")]
        bites: Sequence[Bite] = ()
        if None not in ends:
            bites = self._decide(self._listener.processor.server, *map(endpoint_of, ends))
        if any(each.rule.action.word == "refuse" for each in bites):
            send_reset(outside)
            return
        protocol = self._protocol(bites)
        outside.set_protocol(protocol)
        protocol.connection_made(outside)

    def _protocol(self, bites: Sequence[Bite]) -> asyncio.Protocol:
        listener = self._listener
        for bite in bites:
            if bite.rule.action.word == "hang":
                return HungConnection(listener, self._lifted(bite))
        connection = listener.make_connection()
        for bite in bites:
            assert isinstance(bite.rule.action, ConnectionAction), "about a connection"
            lifted = self._lifted(bite)
            connection.around = _around(bite.rule.action, lifted, connection.around)
        return listener.wrap(connection)

    def _lifted(self, bite: Bite) -> Lifted:
        return lambda: bite.rule.is_lifted(self._listener.clock())


class HungConnection(Connection):
    """Reads from the client, and never replies."""

    def __init__(self, listener: TcpListener, lifted: Lifted) -> None:
        super().__init__(listener)
        self._lifted = lifted

    def expire(self, now: float) -> None:
        """Close when the rule has ended; until then the client may wait without limit."""
        if self._lifted():
            self.close()


def _around(action: ConnectionAction, lifted: Lifted, outer: Around | None) -> Around:
    """Put the transport of a rule around that of another one, if any."""

    def around(transport: asyncio.Transport, inside: Connection) -> FaultyTransport:
        outside = transport if outer is None else outer(transport, inside)
        if action.word == "slow":
            assert action.octets is not None, "a rate"
            return SlowTransport(outside, action.octets, inside, lifted)
        return ResetTransport(outside, action.octets)

    return around


class SlowTransport(FaultyTransport):
    """Sends at most this many octets a second, until `lifted`; then the rest at once."""

    def __init__(
        self, outside: asyncio.Transport, rate: int, inside: asyncio.Protocol, lifted: Lifted
    ) -> None:
        super().__init__(outside)
        self._piece = max(1, round(rate * TICK))
        self._interval = self._piece / rate  # seconds
        self._inside, self._lifted = inside, lifted
        self._waiting = bytearray()
        self._timer: asyncio.TimerHandle | None = None
        self._is_paused = self._is_closing = False
        self._finish: Callable[[], None] | None = None

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Queue octets to be sent in pieces; after the end nothing is sent."""
        if self._is_closing:
            return
        self._waiting += data
        if len(self._waiting) > HIGH and not self._is_paused:
            self._is_paused = True
            self._inside.pause_writing()
        if self._timer is None:
            self._send()

    def close(self) -> None:
        """Close after all octets have been sent."""
        self._is_closing = True
        self._end(self._outside.close)

    def write_eof(self) -> None:
        """Send EOF after all octets have been sent."""
        self._end(self._outside.write_eof)

    def is_closing(self) -> bool:
        """Whether it is closed or closing."""
        return self._is_closing or self._outside.is_closing()

    def abort(self) -> None:
        """Close at once."""
        self._waiting.clear()
        self._outside.abort()

    def has_more(self) -> bool:
        """Whether it will close by itself later, because octets wait to be sent."""
        if self._waiting:
            self.close()
        return bool(self._waiting)

    def _end(self, finish: Callable[[], None]) -> None:
        if self._waiting:
            self._finish = finish
        else:
            finish()

    def _send(self) -> None:
        """Send the next piece; the timer continues after the last one, so that later octets are not sent early."""
        self._timer = None
        if not self._waiting or self._outside.is_closing():
            self._waiting.clear()
            return
        count = len(self._waiting) if self._lifted() else self._piece
        self._outside.write(bytes(self._waiting[:count]))
        del self._waiting[:count]
        if self._is_paused and len(self._waiting) <= HIGH // 2:
            self._is_paused = False
            self._inside.resume_writing()
        if not self._waiting and self._finish is not None:
            self._finish()
        else:
            self._timer = asyncio.get_running_loop().call_later(self._interval, self._send)


class ResetTransport(FaultyTransport):
    """Resets the connection after this many octets; None: after half of the first write."""

    def __init__(self, outside: asyncio.Transport, octets: int | None) -> None:
        super().__init__(outside)
        self._left = octets
        self._is_over = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Send the octets, as far as the limit allows."""
        if self._is_over or not data:
            return
        if self._left is None:
            self._left = len(data) // 2
        sent = data[: self._left]
        self._left -= len(sent)
        if sent:
            self._outside.write(sent)
        if not self._left:
            self._is_over = True
            self._reset_when_sent()

    def _reset_when_sent(self) -> None:
        if self._outside.is_closing():
            return
        if self._outside.get_write_buffer_size():  # a reset would discard these octets
            asyncio.get_running_loop().call_later(POLL, self._reset_when_sent)
        else:
            send_reset(self._outside)


def send_reset(transport: asyncio.Transport) -> None:
    """Close a connection with RST instead of FIN."""
    sock = transport.get_extra_info("socket")
    with contextlib.suppress(OSError):  # the client has closed it already
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _AT_ONCE)
    transport.abort()
