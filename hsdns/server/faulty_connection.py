"""Connections that rules of faults are about: refused, hung, slow, or reset in the middle of a reply.

Path: step 1 for TCP, TLS and HTTPS, as long as such a rule stands: tcp_listener.py accepts with it in place of tcp.py's
and doh.py's own, which it calls once the rules have decided.
Rule 1: the rules decide when the client has connected.  A connection that none is about is as any other from then on.
Rule 2: `refuse` and `reset` send RST, as the kernel does for a socket that closes with SO_LINGER 0 (tcp(7)).  It has
        accepted the connection before, so a client that is refused sees it reset, and not ECONNREFUSED.
Rule 3: `slow` is a slow network: what waits to be sent is out of the connection's hands, so no time limit counts it.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
from collections.abc import Callable, Sequence
from typing import Any, Final, cast

from hsdns.chain import Endpoint
from hsdns.faults.connection import Hang, Refuse, Reset, Slow
from hsdns.faults.rule import Bite
from hsdns.server.sockets import endpoint_of
from hsdns.server.tcp_listener import TcpListener

Decide = Callable[[str, Endpoint, Endpoint], Sequence[Bite]]
Lifted = Callable[[], bool]
TICK: Final = (
    0.1  # seconds between two pieces of a slow connection, where a piece has an octet at least
)
HIGH: Final = 262_144  # octets that wait to be sent slowly, until the connection makes no more
POLL: Final = 0.01  # seconds between looks at whether all is sent
_AT_ONCE: Final = struct.pack("ii", 1, 0)


class FaultyConnection(asyncio.Protocol):
    """One that was just accepted; `decide` asks the rules about a server, a client and the address that it asks."""

    def __init__(self, listener: TcpListener, decide: Decide) -> None:
        self._listener, self._decide = listener, decide

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Have the rules decide, and do what they say."""
        outside = cast("asyncio.Transport", transport)  # uvloop's is one in all but class
        ends = [transport.get_extra_info(name) for name in ("peername", "sockname")]
        bites: Sequence[Bite] = ()
        if None not in ends:
            bites = self._decide(self._listener.processor.server, *map(endpoint_of, ends))
        if any(isinstance(each.rule.action, Refuse) for each in bites):
            send_reset(outside)
            return
        protocol = self._protocol(bites)
        outside.set_protocol(protocol)
        protocol.connection_made(outside)

    def _protocol(self, bites: Sequence[Bite]) -> asyncio.Protocol:
        listener = self._listener
        for bite in bites:
            if isinstance(bite.rule.action, Hang):
                return HungConnection(listener, self._lifted(bite))
        connection = listener.make_connection()
        for bite in bites:
            if isinstance(bite.rule.action, Slow | Reset):
                connection = cast(
                    "asyncio.Protocol", _Through(connection, bite, self._lifted(bite))
                )
        return listener.wrap(connection)

    def _lifted(self, bite: Bite) -> Lifted:
        return lambda: bite.rule.is_lifted(self._listener.clock())


class HungConnection(asyncio.Protocol):
    """Takes what the client sends, and says nothing."""

    pending = 0

    def __init__(self, listener: TcpListener, lifted: Lifted) -> None:
        self._listener, self._lifted = listener, lifted
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take the connection in, so that it counts as any other."""
        self._transport = cast("asyncio.Transport", transport)
        self._listener.admit(self, self._transport)

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        self._transport = None
        self._listener.discard(self)

    def expire(self, now: float) -> None:
        """Close once the rule has ended; else a client may wait as long as it likes."""
        if self._lifted():
            self.close()

    def end(self) -> None:
        """Close."""
        self.close()

    def close(self) -> None:
        """Close."""
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        """Close at once."""
        if self._transport is not None:
            self._transport.abort()


class _Through:
    """What speaks with a client, with a transport that misbehaves between them."""

    def __init__(self, inside: Any, bite: Bite, lifted: Lifted) -> None:
        self._inside, self._action, self._lifted = inside, bite.rule.action, lifted
        self._around: Any = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inside, name)

    def connection_made(self, transport: asyncio.Transport) -> None:
        """Tell what is inside."""
        if isinstance(self._action, Slow):
            self._around = SlowTransport(transport, self._action.rate, self._inside, self._lifted)
        else:
            assert isinstance(self._action, Reset), "the other one that has a transport"
            self._around = ResetTransport(transport, self._action.octets)
        self._inside.connection_made(self._around)

    def eof_received(self) -> bool:
        """Half-closed by the client: what waits is still sent."""
        return bool(self._inside.eof_received()) or self._around.has_more()


class _Around:
    """A transport around another one."""

    def __init__(self, outside: asyncio.Transport) -> None:
        self._outside = outside

    def __getattr__(self, name: str) -> Any:
        return getattr(self._outside, name)

    def writelines(self, pieces: Sequence[bytes]) -> None:
        """Write them as one."""
        self.write(b"".join(pieces))

    def write(self, data: bytes) -> None:
        """Send, or do something else."""
        raise NotImplementedError

    def has_more(self) -> bool:
        """Whether it closes later by itself, since something is still to be sent."""
        return False


class SlowTransport(_Around):
    """Sends so many octets a second, until `lifted`; then the rest at once."""

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

    def write(self, data: bytes) -> None:
        """Have it sent piece by piece; after the end nothing is sent any more."""
        if self._is_closing:
            return
        self._waiting += data
        if len(self._waiting) > HIGH and not self._is_paused:
            self._is_paused = True
            self._inside.pause_writing()
        if self._timer is None:
            self._send()

    def close(self) -> None:
        """Close when all is sent."""
        self._is_closing = True
        self._end(self._outside.close)

    def write_eof(self) -> None:
        """Send the end when all is sent."""
        self._end(self._outside.write_eof)

    def is_closing(self) -> bool:
        """Whether it is closed, or about to be."""
        return self._is_closing or self._outside.is_closing()

    def abort(self) -> None:
        """Close at once."""
        self._waiting.clear()
        self._outside.abort()

    def has_more(self) -> bool:
        """Whether it closes later by itself, since something is still to be sent."""
        if self._waiting:
            self.close()
        return bool(self._waiting)

    def _end(self, finish: Callable[[], None]) -> None:
        if self._waiting:
            self._finish = finish
        else:
            finish()

    def _send(self) -> None:
        """Send the next piece; the timer runs on after the last one, so that no more is sent too soon."""
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


class ResetTransport(_Around):
    """Resets the connection after so many octets; None: after half of what is written first."""

    def __init__(self, outside: asyncio.Transport, octets: int | None) -> None:
        super().__init__(outside)
        self._left = octets
        self._is_over = False

    def write(self, data: bytes) -> None:
        """Send it, or what there is to be sent of it."""
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
        if self._outside.get_write_buffer_size():  # a reset throws away what the kernel has not got
            asyncio.get_running_loop().call_later(POLL, self._reset_when_sent)
        else:
            send_reset(self._outside)


def send_reset(transport: asyncio.Transport) -> None:
    """Close a connection with RST in place of FIN."""
    sock = transport.get_extra_info("socket")
    with contextlib.suppress(OSError):  # the client has closed it already
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _AT_ONCE)
    transport.abort()
