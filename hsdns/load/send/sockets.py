"""The sockets of a load: for datagrams, and for connections.

Path: process.py, probe.py -> here -> udp.py, connection.py, pods.py.
Rule 1: a UDP socket is connected, so that the kernel drops datagrams from other addresses.  An error that the kernel
        reports for an earlier query (a closed port) is not an error of the next one.
Rule 2: it reports when the kernel received each datagram, and sent some, if that tells (Linux), so that a slow process
        does not add latency.  These times are wall clock time; after somebody has set the clock, those of one reading
        are not used.
Rule 3: no TLS session is resumed: every handshake is full, so each set-up costs as much as that of a new client.  An
        end without close_notify is accepted: DNS messages have a length prefix.
Source: the kernel's Documentation/networking/timestamping.rst, SO_TIMESTAMPING; socket(7), SO_MEMINFO.
"""

from __future__ import annotations

import errno
import os
import selectors
import socket
import ssl
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from struct import Struct
from typing import Final, NamedTuple

from hsdns.load.counters import CLOSED, RESET
from hsdns.load.errors import LoadError
from hsdns.load.plan import DOH, StreamPlan, authority
from hsdns.load.send.connection import Connection, Connections, FramedSession, Pool, Session
from hsdns.load.send.http2 import Http2Session, Requests
from hsdns.load.send.loop import Ended

BUFFER: Final = 4 << 20  # octets, as far as the system allows
SMALL_BUFFER: Final = 1 << 20  # of sockets of which there are many
AT_ONCE: Final = 64  # datagrams, or records of TLS
TRIES: Final = 4
LONGEST: Final = 65_535  # octets
_BIND_ADDRESS_NO_PORT: Final = 24  # IP_BIND_ADDRESS_NO_PORT of Linux
_TIMESTAMPING: Final = 37  # SO_TIMESTAMPING and SCM_TIMESTAMPING of Linux
# Stamps of software: of all that is received; of what is sent, without its octets, where _SENT asks for them.
_WANTED: Final = 1 << 3 | 1 << 4 | 1 << 11
_SENT: Final = [(socket.SOL_SOCKET, _TIMESTAMPING, (1 << 1).to_bytes(4, sys.byteorder))]
_TIME: Final = Struct("@ll")  # the first of three struct timespec
_ROOM: Final = socket.CMSG_SPACE(3 * _TIME.size)
_ERROR_ROOM: Final = _ROOM + 128  # with IP_RECVERR
_STAMP_EVERY: Final = 1_000_000  # nanoseconds
_MEMINFO: Final = 55  # SO_MEMINFO
_WORDS_LEN: Final = 36  # octets
_DROPS: Final = 32  # where in these they are
_SECOND: Final = 1_000_000_000
_TOLERANCE: Final = 1000  # nanoseconds by which two readings of two clocks may disagree
READ_LEN: Final = 1 << 16  # octets
_BUSY: Final = (errno.EINPROGRESS, errno.EWOULDBLOCK)
_LACKS: Final = (errno.EADDRNOTAVAIL, errno.EMFILE, errno.ENFILE, errno.ENOBUFS)
_HTTP2: Final = "h2"  # in ALPN
_NO_ROOM: Final = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)
Address = tuple[str | int, ...]  # in the socket module's form


def open_socket(
    family: int, address: Address, buffer: int = BUFFER, source: str = ""
) -> socket.socket:
    """A non-blocking socket for a target, from an address if one is given; raise OSError."""
    sock = socket.socket(family, socket.SOCK_DGRAM)
    for option in (socket.SO_RCVBUF, socket.SO_SNDBUF):
        with suppress(OSError):
            sock.setsockopt(socket.SOL_SOCKET, option, buffer)
    sock.setblocking(False)
    try:
        _bind(sock, source)
        sock.connect(address)
    except OSError:
        sock.close()
        raise
    return sock


def _bind(sock: socket.socket, source: str) -> None:
    """Let a socket come from an address; which port is decided when it connects, so that there are enough."""
    if source:
        with suppress(OSError):  # only Linux has it
            sock.setsockopt(socket.IPPROTO_IP, _BIND_ADDRESS_NO_PORT, 1)
        sock.bind((source, 0))


def check_sources(sources: Sequence[str], family: int, address: Address) -> None:
    """Raise LoadError if a target cannot be reached from the first or the last of some addresses."""
    for source in (sources[0], sources[-1]):
        try:
            open_socket(family, address, source=source).close()
        except OSError as error:
            raise LoadError(
                f"--clients: nothing can be sent from {source} to {address[0]} ({error.strerror or error}); give "
                "addresses of this machine, such as 127.1.0.0/24 for a server on it"
            ) from None


class WallClock:
    """The difference between the wall clock and the monotonic one, which changes only when somebody sets the clock."""

    _known = 0

    def offset(self) -> int | None:
        """Read it, in nanoseconds; None if it has changed since the last reading."""
        before, wall, after = time.monotonic_ns(), time.time_ns(), time.monotonic_ns()
        if wall - after - _TOLERANCE <= self._known <= wall - before + _TOLERANCE:
            return self._known
        self._known = wall - (before + after) // 2
        return None


class UdpSocket:
    """A socket for one target; `source` is the address that it comes from, "" for that of the system."""

    def __init__(
        self, family: int, address: Address, buffer: int = BUFFER, source: str = ""
    ) -> None:
        self.socket = open_socket(family, address, buffer, source)
        self._wall_clock = WallClock()
        self._wall_clock.offset()
        self._dropped = self._turn = self._next = 0
        self._asked: tuple[int, int] | None = None  # the datagram to stamp, and the time before
        try:
            self.socket.setsockopt(socket.SOL_SOCKET, _TIMESTAMPING, _WANTED)
        except OSError:  # no time is known
            self._next = sys.maxsize

    def fileno(self) -> int:
        """The descriptor that is readable if a datagram has arrived."""
        return self.socket.fileno()

    def send(self, datagrams: Sequence[bytes]) -> Sequence[int]:
        """Send datagrams; return the indexes of those that could not be sent."""
        now, self._asked = time.monotonic_ns(), None
        if now >= self._next:
            self._next, self._turn = now + _STAMP_EVERY, self._turn + 1
            self._asked = self._turn % len(datagrams), now
        stamped = self._asked[0] if self._asked else -1
        return [at for at, each in enumerate(datagrams) if not self._is_sent(each, at == stamped)]

    def left(self) -> tuple[int, int] | None:
        """The index of one of these datagrams, and when it left, if the kernel has stamped one."""
        offset = self._wall_clock.offset() if self._asked else None
        if self._asked is None or offset is None:
            return None
        for at in self._sent_stamps():
            if at - offset >= self._asked[1]:  # one of an earlier call may have come late
                return self._asked[0], at - offset
        return None

    def _sent_stamps(self) -> Iterator[int]:
        with suppress(OSError):
            while True:
                yield _stamp_in(self.socket.recvmsg(0, _ERROR_ROOM, socket.MSG_ERRQUEUE)[1])

    def receive(self) -> tuple[list[tuple[bytes, int]], bool]:
        """Return at most AT_ONCE datagrams that have arrived, with their times, and whether there may be more.

        A time is in nanoseconds of the monotonic clock; 0 if it is not known.
        """
        found: list[tuple[bytes, int]] = []
        is_more = True
        for _ in range(AT_ONCE):
            try:
                octets, control, _, _ = self.socket.recvmsg(LONGEST, _ROOM)
                found.append((octets, _stamp_in(control)))
            except BlockingIOError:
                is_more = False
                break
            except OSError:
                continue
        if not found:
            deque(self._sent_stamps(), 0)  # one that came late makes the socket readable
        offset = self._wall_clock.offset() if found else None
        return [(octets, at - offset if at and offset else 0) for octets, at in found], is_more

    def dropped(self) -> int:
        """How many datagrams it has had no room for since the last call, if the kernel tells."""
        before = self._dropped
        with suppress(OSError):
            octets = self.socket.getsockopt(socket.SOL_SOCKET, _MEMINFO, _WORDS_LEN)
            self._dropped = int.from_bytes(octets[_DROPS:][:4], sys.byteorder)
        return self._dropped - before & 0xFFFF_FFFF

    def close(self) -> None:
        """Close the socket."""
        self.socket.close()

    def _is_sent(self, datagram: bytes, is_stamped: bool) -> bool:
        for _ in range(TRIES):
            try:
                self.socket.sendmsg((datagram,), _SENT if is_stamped else ())
            except ConnectionRefusedError:
                continue  # an error of an earlier query; the kernel clears it by reporting it
            except OSError:
                return False
            else:
                return True
        return False


def _stamp_in(control: list[tuple[int, int, bytes]]) -> int:
    """The stamp among control messages, in nanoseconds of the wall clock; 0 if there is none."""
    for level, kind, data in control:
        if level == socket.SOL_SOCKET and kind == _TIMESTAMPING and len(data) >= _TIME.size:
            seconds, nanoseconds = _TIME.unpack_from(data)
            return int(seconds) * _SECOND + int(nanoseconds)
    return 0


class Tls(NamedTuple):
    """TLS of a client; the certificate must be for `name`, and ALPN must select `protocol`, if any."""

    context: ssl.SSLContext
    name: str
    protocol: str = ""


def client_tls(plan: StreamPlan, host: str) -> Tls | None:
    """TLS for a plan, which trusts its certificates, else those of this machine; raise LoadError."""
    if not plan.is_encrypted:
        return None
    if plan.tls_insecure or plan.tls_ca:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    else:
        context = ssl.create_default_context()
    if plan.tls_insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    elif plan.tls_ca:
        try:
            context.load_verify_locations(cafile=plan.tls_ca)
        except FileNotFoundError:
            raise LoadError(f"--tls-ca: there is no file {plan.tls_ca}") from None
        except (OSError, ssl.SSLError) as error:
            reason = error.strerror or str(error)
            raise LoadError(
                f"--tls-ca {plan.tls_ca}: there is no certificate in PEM form to read ({reason})"
            ) from None
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    protocol = _HTTP2 if plan.transport == DOH else ""
    if protocol:
        context.set_alpn_protocols([protocol])
    return Tls(context, plan.tls_name or host.partition("%")[0], protocol)


class StreamLink:
    """A connecting socket, with TLS if `links` has it."""

    def __init__(self, links: Links, connection: Connection) -> None:
        self._links = links
        self._handle = partial(links.handle, connection)
        self._is_connected = False
        self._error: tuple[object, ...] = ()  # arguments of what the next receive() raises
        self.socket = socket.socket(links.family, socket.SOCK_STREAM)
        try:
            self.socket.setblocking(False)
            self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            _bind(self.socket, connection.source)
            found = self.socket.connect_ex(links.address)
            if found in _LACKS:
                raise OSError(found, os.strerror(found))
            self._refused = 0 if found in _BUSY else found
            links.selector.register(self.socket, selectors.EVENT_WRITE, self._handle)
        except OSError:
            self.socket.close()
            raise

    def set_up(self) -> bool:
        """Go on with the set-up; return whether it is complete; raise OSError."""
        tls = self._links.tls
        if not self._is_connected:
            found = self._refused or self.socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            if found:
                raise OSError(found, os.strerror(found).lower())
            self._is_connected = True
            self.watch_writing(is_on=False)
            if tls is not None:
                self.socket = tls.context.wrap_socket(
                    self.socket,
                    server_hostname=tls.name,
                    do_handshake_on_connect=False,
                    suppress_ragged_eofs=False,
                )
        return tls is None or self._shake(tls)

    def _shake(self, tls: Tls) -> bool:
        """Go on with the handshake of TLS."""
        assert isinstance(self.socket, ssl.SSLSocket), "set_up() has made it"
        try:
            self.socket.do_handshake()
        except _NO_ROOM:
            return False
        except ssl.SSLError as error:
            raise _readable(error) from None
        if tls.protocol and self.socket.selected_alpn_protocol() != tls.protocol:
            raise OSError(errno.EPROTO, f"the server does not choose {tls.protocol} (ALPN)")
        return True

    def send(self, octets: bytes | bytearray) -> int:
        """Send as many octets as there is room for; return their number; raise OSError."""
        try:
            return self.socket.send(octets)
        except _NO_ROOM:
            return 0
        except ssl.SSLError as error:
            raise _readable(error) from None

    def receive(self) -> tuple[bytes, bool]:
        """What has arrived, and whether the server has ended the connection; raise OSError.

        An error after records that have arrived is raised by the next call, so that they are not lost.
        """
        if self._error:
            raise OSError(*self._error)
        found: list[bytes] = []
        try:
            # Without TLS, one call returns what has arrived; with it, a record.
            while len(found) < (1 if self._links.tls is None else AT_ONCE):
                found.append(self.socket.recv(READ_LEN))
                if not found[-1]:
                    return b"".join(found), True
        except _NO_ROOM:
            pass
        except OSError as error:
            if isinstance(error, ssl.SSLEOFError) and error.reason:
                return b"".join(found), True
            # The arguments alone: an exception in a variable would be a cycle with its traceback.
            self._error = (_readable(error) if isinstance(error, ssl.SSLError) else error).args
            if not found:
                raise OSError(*self._error) from None
        return b"".join(found), False

    def watch_writing(self, *, is_on: bool) -> None:
        """Start or stop watching for room to send."""
        events = selectors.EVENT_READ | (selectors.EVENT_WRITE if is_on else 0)
        self._links.selector.modify(self.socket, events, self._handle)

    def close(self) -> None:
        """Close it, after a close_notify, without waiting for the server's."""
        with suppress(KeyError, ValueError):
            self._links.selector.unregister(self.socket)
        if isinstance(self.socket, ssl.SSLSocket):
            with suppress(OSError, ValueError):
                self.socket.unwrap()
        self.socket.close()
        del self._handle  # it refers to this link, and cycles are not collected here


def _readable(error: ssl.SSLError) -> OSError:
    """An error of TLS, with a part of a sentence as its `strerror`."""
    reason = error.reason or str(error)
    if isinstance(error, ssl.SSLEOFError):
        # One without a reason is an error of the socket, which the module does not pass on before Python 3.13.
        words = CLOSED if error.reason else RESET
    elif isinstance(error, ssl.SSLCertVerificationError):
        words = f"TLS: {error.verify_message.rstrip('.')}"
    elif reason == "WRONG_VERSION_NUMBER":
        words = "what answers does not speak TLS"
    else:
        words = f"TLS: {reason.lower().replace('_', ' ')}"
    return OSError(errno.EPROTO, words)


@dataclass
class Links:
    """Makes sockets to one address, and handles those that a selector finds."""

    selector: selectors.BaseSelector
    family: int
    address: Address
    tls: Tls | None = None
    connections: Connections = field(init=False)

    def open(self, connection: Connection) -> StreamLink:
        """Begin to connect; raise OSError if this machine cannot."""
        return StreamLink(self, connection)

    def handle(self, connection: Connection, events: int) -> None:
        """Handle a connection that is ready."""
        if events & selectors.EVENT_WRITE:
            self.connections.can_write(connection)
        if events & selectors.EVENT_READ:
            self.connections.can_read(connection)


def open_pool(
    plan: StreamPlan,
    selector: selectors.BaseSelector,
    family: int,
    address: Address,
    timeout: int,
    ended: Ended,
    clock: Callable[[], int],
    kind: Callable[..., Pool] = Pool,
) -> Pool:
    """The connections of a plan, whose sockets a selector finds; `timeout` in nanoseconds; raise LoadError."""
    host = str(address[0])
    links = Links(selector, family, address, client_tls(plan, host))
    name = plan.tls_name or host.partition("%")[0]
    requests = Requests(authority(name, int(address[1])), plan.path, plan.method)

    def open_session() -> Session:
        return Http2Session(requests) if plan.transport == DOH else FramedSession()

    links.connections = pool = kind(links.open, plan, timeout, open_session, ended, clock)
    return pool
