"""What all connections of clients have in common: turns, counts, layers; and TLS (RFC 7858), alike on each event loop.

Path: steps 1 and 7; tcp.py and the files of http/ have the protocols; layers are between them and the socket: TLS, and
those of faults.py.
Rule 1: the inner protocol is told of its connection when the client has connected, before the handshake, so that its
        limits and timeouts also apply to clients that never finish one.  The handshake begins when that protocol
        reads.
Rule 2: the context is chosen for each connection, so a reload replaces certificates without touching the socket.
Rule 3: of a read, RECORDS are decrypted at once, and the others in the turns of all connections (admission.py), because
        a read may consist of 11,000 records (10 ms).  Until then, nothing more is read.
Rule 4: an end without close_notify counts as an end, because DNS messages begin with their length.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import ssl
from typing import TYPE_CHECKING, Any, Final, cast

from hsdns.server.transport.admission import Places, Turns

if TYPE_CHECKING:
    from hsdns.server.transport.tcp import DnsConnection

log = logging.getLogger("hsdns.server.tls")

READ_LEN: Final = 64 * 1024  # octets decrypted at a time
RECORDS: Final = 32  # in one step
# The response of Go's HTTP server, in plain text, to a client that sends plain text.
PLAIN_HTTP: Final = (
    b"HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n"
)


class Connection(asyncio.Protocol):
    """A client's connection: it takes turns, counts the octets that wait in it, and reads as long as little does.

    `pending` are the queries or requests in progress.  A subclass says what it does in a step.
    """

    pending = 0
    free = 0  # octets that are not counted

    def __init__(self, places: Places, turns: Turns) -> None:
        self.client = b""  # as client_of() names it
        self._places, self._turns = places, turns
        self._transport: asyncio.Transport | None = None
        self._counted = 0  # octets that `places` knows of
        self._is_paused = False
        self._ended = False  # no more messages are accepted

    def step(self) -> bool:
        """Handle one message; return whether the next one may follow."""
        return False

    def end_turn(self) -> None:
        """Write the replies of the steps in this iteration."""

    def end(self) -> None:
        """Accept no more messages, and close after the replies in progress."""
        self.close()

    def close(self) -> None:
        """Close after the written data have been sent."""
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        """Close at once."""
        if self._transport is not None:
            self._transport.abort()

    @property
    def _is_open(self) -> bool:
        return self._transport is not None and not self._transport.is_closing()

    def _octets(self) -> int:
        """The octets that are kept for it."""
        return 0

    def _may_step(self) -> bool:
        """Whether a step may follow."""
        return False

    def _is_busy(self) -> bool:
        """Whether nothing more is to be read for now."""
        return False

    def _go_on(self) -> None:
        """Handle waiting messages, in fair turns with other connections, within the limits."""
        if self._may_step():
            self._turns.enter(self)
        self._read_or_pause()

    def _read_or_pause(self) -> None:
        is_busy = self._is_busy()
        if (
            self._transport is None
            or is_busy == self._is_paused
            or self._ended
            or not self._is_open
        ):
            return
        self._is_paused = is_busy
        if is_busy:
            self._transport.pause_reading()
        else:
            self._transport.resume_reading()

    def _count(self) -> None:
        """Count the octets that wait here."""
        octets = self._octets()
        if octets > self.free or self._counted:
            self._counted = octets
            self._places.hold(self, octets)


class Layer(asyncio.Protocol, asyncio.Transport):
    """Stands between a transport and a protocol, and passes on what a subclass does not change.

    It is the protocol of the transport `_outside`, and the transport of the protocol `_inside`.
    """

    _outside: asyncio.Transport

    def __init__(self, inside: asyncio.Protocol) -> None:
        super().__init__()
        self._inside = inside

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Tell the inner protocol."""
        self._outside = cast("asyncio.Transport", transport)  # uvloop's has another class
        self._inside.connection_made(self)

    def data_received(self, data: bytes) -> None:
        """Pass data in."""
        self._inside.data_received(data)

    def eof_received(self) -> bool:
        """Tell the inner protocol; return whether the connection stays open."""
        return bool(self._inside.eof_received())

    def pause_writing(self) -> None:
        """Tell the inner protocol."""
        self._inside.pause_writing()

    def resume_writing(self) -> None:
        """Tell the inner protocol."""
        self._inside.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell the inner protocol."""
        self._inside.connection_lost(exc)

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """Return information of the outer transport."""
        return self._outside.get_extra_info(name, default)

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Send octets."""
        self._outside.write(data)

    def close(self) -> None:
        """Close after the written data have been sent."""
        self._outside.close()

    def abort(self) -> None:
        """Close at once."""
        self._outside.abort()

    def write_eof(self) -> None:
        """Send EOF."""
        self._outside.write_eof()

    def is_closing(self) -> bool:
        """Return whether it is closed or closing."""
        return self._outside.is_closing()

    def pause_reading(self) -> None:
        """Receive no data for now; data that were already read may still arrive."""
        self._outside.pause_reading()

    def resume_reading(self) -> None:
        """Receive data again."""
        self._outside.resume_reading()

    def get_write_buffer_size(self) -> int:
        """Return the number of octets that wait to be sent."""
        return self._outside.get_write_buffer_size()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Set when writing pauses."""
        self._outside.set_write_buffer_limits(high, low)


class TlsConnection(Layer):
    """Decrypts for the inner protocol; with `turns`, in those of `connection`, which is innermost."""

    def __init__(
        self,
        inside: asyncio.Protocol,
        context: ssl.SSLContext,
        *,
        is_http: bool = False,
        turns: Turns | None = None,
        connection: DnsConnection | None = None,
    ) -> None:
        super().__init__(inside)
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.ssl = context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        self._is_http = is_http
        self._is_shaken = False  # whether the handshake is over
        self._is_over = self._is_lost = False
        self._turns, self._connection = turns, connection
        self._waiting = 0  # octets that wait for a turn
        self._pauses_inside = False  # the inner protocol wants no data

    def data_received(self, data: bytes) -> None:
        """Decrypt, and pass on the plain text."""
        if self._is_over:
            return
        self._incoming.write(data)
        if self._pauses_inside and not self._is_shaken:
            # The loop may have begun to read after connection_made().
            self._outside.pause_reading()
        else:
            self._decrypt()

    def _decrypt(self) -> None:
        while self.step():
            if self._turns is not None:
                self._turns.enter(self)
                self.end_turn()
                return

    @property
    def client(self) -> bytes:
        """The client, for its turns."""
        assert self._connection is not None, "given with the turns"
        return self._connection.client

    def step(self) -> bool:
        """Decrypt RECORDS, and pass on the plain text; return whether there may be more."""
        if self._is_over:
            return False
        plain: list[bytes] = []
        has_more = True
        end: ssl.SSLError | None = None
        try:
            if not self._is_shaken:
                self.ssl.do_handshake()
                self._is_shaken = True
                self._flush()
            while has_more and len(plain) < RECORDS:
                record = self.ssl.read(READ_LEN)
                if not record:
                    raise ssl.SSLZeroReturnError
                plain.append(record)
                # To find out by reading on costs an exception.
                has_more = self._incoming.pending > 0 or self.ssl.pending() > 0
        except ssl.SSLError as error:
            end = error
        if plain:
            self._inside.data_received(b"".join(plain))
        if end is None and has_more:
            return True
        if end is None or isinstance(end, ssl.SSLWantReadError):
            self._flush()
        elif isinstance(end, ssl.SSLZeroReturnError):
            self._hear_end()
        else:
            self._fail(end)
        return False

    def _hear_end(self) -> None:
        """Treat close_notify as the end of the client's data."""
        if not self._is_over and not self._inside.eof_received():
            self.close()

    def end_turn(self) -> None:
        """Count the octets that wait for a turn, and read only while there are none."""
        waiting = 0 if self._is_over else self._incoming.pending
        if waiting != self._waiting:
            self._waiting = waiting
            if self._connection is not None:
                self._connection.count_encrypted(waiting)
            self._read_or_pause()

    def pause_reading(self) -> None:
        """Receive no data for now; data that were already read may still arrive."""
        self._pauses_inside = True
        self._read_or_pause()

    def resume_reading(self) -> None:
        """Receive data again, once none wait for a turn."""
        is_late = self._pauses_inside and not self._is_shaken
        self._pauses_inside = False
        if self._read_or_pause() and is_late:
            self._decrypt()

    def _read_or_pause(self) -> bool:
        """Read only while the inner protocol wants data, and none wait for a turn."""
        reads = not self._pauses_inside and not self._waiting
        if self._is_lost:
            return False
        if reads:
            self._outside.resume_reading()
        else:
            self._outside.pause_reading()
        return reads

    def eof_received(self) -> bool:
        """Half-closed without close_notify: queries in progress are still answered."""
        return not self._is_over and super().eof_received()

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell the inner protocol."""
        self._is_over = self._is_lost = True
        super().connection_lost(exc)

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """Return information of the outer transport; `ssl_object` is the connection's."""
        return self.ssl if name == "ssl_object" else super().get_extra_info(name, default)

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Encrypt and send; before the handshake is over there is nothing to send."""
        if not self._is_over and self._is_shaken:
            try:
                self.ssl.write(data)
            except ssl.SSLError as error:
                self._fail(error)
            else:
                self._flush()

    def close(self) -> None:
        """Close after the written data have been sent."""
        self._say_end()
        super().close()

    def write_eof(self) -> None:
        """Send close_notify, after which nothing is sent; further data of the client are discarded."""
        self._say_end()
        super().write_eof()

    def _say_end(self) -> None:
        """Send close_notify, once."""
        if not self._is_over:
            self._is_over = True
            if self._is_shaken:
                with contextlib.suppress(ssl.SSLError):  # the client's close_notify is not awaited
                    self.ssl.unwrap()
                self._flush()

    def _flush(self) -> None:
        """Send the encrypted octets."""
        if self._outgoing.pending:
            self._outside.write(self._outgoing.read())

    def _fail(self, error: ssl.SSLError) -> None:
        """End a connection after a TLS error, with the alert that gives the reason."""
        if self._is_over:  # the inner protocol has ended it meanwhile
            return
        log.debug("tls: %s", error)
        self._is_over = True
        if self._is_http and error.reason == "HTTP_REQUEST":
            self._outside.write(PLAIN_HTTP)
        else:
            self._flush()
        self._outside.close()
