"""TLS on a connection, for DNS over TLS (RFC 7858) and HTTPS, the same on each event loop.

Path: step 1 and 7, between the socket and the inner protocol of tcp.py, doh.py or http.py.
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
from typing import Any, Final, Protocol, cast

from hsdns.server.admission import Turns

log = logging.getLogger("hsdns.server.tls")

READ_LEN: Final = 64 * 1024  # octets decrypted at a time
RECORDS: Final = 32  # in one step
# The response of Go's HTTP server, in plain text, to a client that sends plain text.
PLAIN_HTTP: Final = (
    b"HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n"
)


class TakesTurns(Protocol):
    """The interface to an inner protocol whose connections take turns."""

    @property
    def client(self) -> bytes:
        """Its client, as client_of() names it."""

    def count_encrypted(self, octets: int) -> None:
        """Count the octets that wait to be decrypted."""


class TlsConnection(asyncio.Protocol):
    """Decrypts for the inner protocol, which is one of TakesTurns if `turns` are given."""

    def __init__(
        self,
        inside: asyncio.Protocol,
        context: ssl.SSLContext,
        *,
        is_http: bool = False,
        turns: Turns | None = None,
    ) -> None:
        self._inside = inside
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.ssl = context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        self._is_http = is_http
        self._is_shaken = False  # whether the handshake is over
        self._is_over = False
        self._turns = turns
        self._waiting = 0  # octets that wait for a turn
        self._pauses_inside = False  # the inner protocol wants no data
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Tell the inner protocol."""
        self._transport = cast("asyncio.Transport", transport)  # uvloop's has another class
        self._inside.connection_made(TlsTransport(self._transport, self))

    def data_received(self, data: bytes) -> None:
        """Decrypt, and pass on the plain text."""
        if self._is_over:
            return
        self._incoming.write(data)
        if self._pauses_inside and not self._is_shaken:
            # The loop may have begun to read after connection_made().
            self.pause_reading(True)
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
        return self._inner.client

    @property
    def _inner(self) -> TakesTurns:
        return cast("TakesTurns", self._inside)

    def step(self) -> bool:
        """Decrypt RECORDS, and pass on the plain text; return whether there may be more."""
        if self._is_over:
            return False
        plain: list[bytes] = []
        end: ssl.SSLError | None = None
        try:
            if not self._is_shaken:
                self.ssl.do_handshake()
                self._is_shaken = True
                self.flush()
            while len(plain) < RECORDS:
                record = self.ssl.read(READ_LEN)
                if not record:
                    raise ssl.SSLZeroReturnError
                plain.append(record)
        except ssl.SSLError as error:
            end = error
        if plain:
            self._inside.data_received(b"".join(plain))
        if end is None:
            return True
        if isinstance(end, ssl.SSLWantReadError):
            self.flush()
        elif isinstance(end, ssl.SSLZeroReturnError):
            self._hear_end()
        else:
            self._fail(end)
        return False

    def end_turn(self) -> None:
        """Count the octets that wait for a turn, and read only while there are none."""
        waiting = 0 if self._is_over else self._incoming.pending
        if waiting != self._waiting:
            self._waiting = waiting
            self._inner.count_encrypted(waiting)
            self.pause_reading(self._pauses_inside)

    def close(self) -> None:
        """Close, after a failed step."""
        if self._transport is not None:
            self._transport.close()

    def pause_reading(self, pauses_inside: bool) -> None:
        """Receive no data while the inner protocol wants none, or some wait for a turn."""
        is_late = self._pauses_inside and not pauses_inside and not self._is_shaken
        self._pauses_inside = pauses_inside
        if self._transport is not None:
            if pauses_inside or self._waiting:
                self._transport.pause_reading()
            else:
                self._transport.resume_reading()
                if is_late:
                    self._decrypt()

    def eof_received(self) -> bool:
        """Half-closed without close_notify: queries in progress are still answered."""
        return False if self._is_over else bool(self._inside.eof_received())

    def pause_writing(self) -> None:
        """Tell the inner protocol."""
        self._inside.pause_writing()

    def resume_writing(self) -> None:
        """Tell the inner protocol."""
        self._inside.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell the inner protocol."""
        self._is_over = True
        self._transport = None
        self._inside.connection_lost(exc)

    def write(self, data: bytes) -> None:
        """Encrypt and send; before the handshake is over there is nothing to send."""
        if not self._is_over and self._is_shaken:
            try:
                self.ssl.write(data)
            except ssl.SSLError as error:
                self._fail(error)
            else:
                self.flush()

    def say_end(self) -> None:
        """Send close_notify, once."""
        if not self._is_over:
            self._is_over = True
            if self._is_shaken:
                with contextlib.suppress(ssl.SSLError):  # the client's close_notify is not awaited
                    self.ssl.unwrap()
                self.flush()

    def flush(self) -> None:
        """Send the encrypted octets."""
        if self._outgoing.pending and self._transport is not None:
            self._transport.write(self._outgoing.read())

    def _hear_end(self) -> None:
        """Treat close_notify as the end of the client's data."""
        if not self._is_over and not self._inside.eof_received() and self._transport is not None:
            self.say_end()
            self._transport.close()

    def _fail(self, error: ssl.SSLError) -> None:
        """End a connection after a TLS error, with the alert that gives the reason."""
        if self._is_over:  # the inner protocol has ended it meanwhile
            return
        log.debug("tls: %s", error)
        self._is_over = True
        if self._transport is None:
            return
        if self._is_http and error.reason == "HTTP_REQUEST":
            self._transport.write(PLAIN_HTTP)
        else:
            self.flush()
        self._transport.close()


class OuterTransport(asyncio.Transport):
    """A transport of an inner protocol, around another one."""

    def __init__(self, outside: asyncio.Transport) -> None:
        super().__init__()
        self._outside = outside

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

    def can_write_eof(self) -> bool:
        """Return that it can send EOF."""
        return True

    def write_eof(self) -> None:
        """Send EOF."""
        self._outside.write_eof()

    def is_closing(self) -> bool:
        """Return whether it is closed or closing."""
        return self._outside.is_closing()

    def is_reading(self) -> bool:
        """Return whether it receives data."""
        return self._outside.is_reading()

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

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        """Refuse: the inner protocol cannot be replaced."""
        raise NotImplementedError


class TlsTransport(OuterTransport):
    """That of the protocol inside of TLS."""

    def __init__(self, outside: asyncio.Transport, connection: TlsConnection) -> None:
        super().__init__(outside)
        self._connection = connection

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """Return information of the outer transport; `ssl_object` is the connection's."""
        if name == "ssl_object":
            return self._connection.ssl
        return super().get_extra_info(name, default)

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Encrypt and send."""
        self._connection.write(bytes(data))

    def close(self) -> None:
        """Close after the written data have been sent."""
        self._connection.say_end()
        super().close()

    def write_eof(self) -> None:
        """Send close_notify, after which nothing is sent; further data of the client are discarded."""
        self._connection.say_end()
        super().write_eof()

    def pause_reading(self) -> None:
        """Receive no data for now; data that were already read may still arrive."""
        self._connection.pause_reading(True)

    def resume_reading(self) -> None:
        """Receive data again."""
        self._connection.pause_reading(False)
