"""The sockets of an address: how they are bound, their settings, and the addresses of clients.

Path: listeners.py binds them, udp.py and tcp.py read them; nothing else owns a query socket.
Rule 1: a listener without `bind`, or bound to `0.0.0.0` or `::`, has one dual-stack socket, or an IPv4 socket if the
        host has no IPv6 (as in Go's net package, and therefore in CoreDNS).
Rule 2: a reply is sent from the address that the query was sent to (RFC 2181 section 4.1): for wildcard UDP sockets,
        the kernel reports it with each datagram.
Rule 3: SO_REUSEPORT is not set, because with it a second server on the port would start unnoticed and receive half of
        the queries.  It is set only on our own sockets of a port, while that port is bound both on one address and on
        all addresses, and on the sockets of several workers, after the first of them was bound without it; and with
        -reuseport on all sockets, for a server that replaces this one.

The settings of a listener's sockets and connections, from the plugins of its blocks:
Source: CoreDNS 1.14.7 core/dnsserver: of several blocks at one address, the last one with a value applies for times,
the first block for numbers.
"""

from __future__ import annotations

import contextlib
import errno
import socket
import ssl
from collections.abc import Collection, Iterator
from typing import Any, Final, NamedTuple

from hsdns.assemble import ListenAddress, ServedAddress
from hsdns.chain import Endpoint
from hsdns.fastpath.control import (
    IP_PKTINFO,
    IPV6_PKTINFO,
    forbid_fragments,
    read_address,
    read_messages,
    write_address,
)
from hsdns.limits import usable_cpus
from hsdns.plugins.https import DEFAULT_CONNECTIONS, Https
from hsdns.plugins.multisocket import Multisocket
from hsdns.plugins.timeouts import UNLIMITED, Timeouts

RECEIVE_BUFFER_SIZE: Final = 4 * 1024 * 1024  # the default 212,992 holds 256 small queries
BACKLOG: Final = 1024
IPV6_RECVPKTINFO: Final = 49  # Linux; the socket module has it only if it was compiled with it
MAPPED: Final = "::ffff:"  # before an IPv4 address on a dual-stack socket


class ListenError(Exception):
    """A sentence for the operator: the address that could not be bound, and why."""


def open_udp(listen: ListenAddress, *, shared: bool = False) -> socket.socket:
    """Bind a UDP socket, not blocking; raise ListenError."""
    sock = _bind(listen, socket.SOCK_DGRAM, shared)
    if listen.is_wildcard:
        if sock.family == socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, IPV6_RECVPKTINFO, 1)
        else:
            sock.setsockopt(socket.IPPROTO_IP, IP_PKTINFO, 1)
    forbid_fragments(sock)
    with contextlib.suppress(OSError):  # the kernel limits it to net.core.rmem_max
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BUFFER_SIZE)
    return sock


def open_tcp(listen: ListenAddress, *, shared: bool = False) -> socket.socket:
    """Bind a TCP socket and listen, not blocking; raise ListenError."""
    sock = _bind(listen, socket.SOCK_STREAM, shared)
    sock.listen(BACKLOG)
    return sock


def open_both(
    listen: ListenAddress, beside: Collection[socket.socket] = (), *, reuseport: bool = False
) -> tuple[socket.socket, socket.socket]:
    """Bind UDP and TCP to one address; port 0 chooses one that is free for both; raise ListenError.

    `beside` are the sockets that this process has on the same port of other addresses.
    """
    shared = reuseport or bool(beside)
    tries = 16 if listen.port == 0 else 1
    with _sharing(beside):
        while True:
            tries -= 1
            udp = open_udp(listen, shared=shared)
            port: int = udp.getsockname()[1]
            try:
                tcp = open_tcp(listen._replace(port=port), shared=shared)
            except ListenError:
                udp.close()
                if not tries:
                    raise
            else:
                _share((udp, tcp), reuseport)
                return udp, tcp


class BoundSockets(NamedTuple):
    """The sockets of one address: one for each UDP worker, and one for TCP.

    There are none for UDP if the scheme uses TCP only, and none for TCP if only the number of workers changes.
    """

    udp: list[socket.socket]
    tcp: socket.socket | None

    @property
    def sockets(self) -> list[socket.socket]:
        """All sockets."""
        return [*self.udp, self.tcp] if self.tcp is not None else self.udp

    @property
    def local(self) -> Endpoint:
        """The bound address, with the port that the kernel chose for port 0."""
        return Endpoint(*self.sockets[-1].getsockname()[:2])

    def close(self) -> None:
        """Close the sockets."""
        for sock in self.sockets:
            sock.close()


def open_all(
    listen: ListenAddress,
    beside: Collection[socket.socket] = (),
    workers: int = 1,
    *,
    reuseport: bool = False,
) -> BoundSockets:
    """Bind this many UDP sockets and a TCP socket to one address; raise ListenError.

    Without `reuseport`, the first socket is bound without SO_REUSEPORT, so a second server is noticed; then it lets the
    others join it.
    """
    if listen.scheme != "dns":
        with _sharing(beside):
            return BoundSockets([], open_tcp(listen, shared=reuseport or bool(beside)))
    udp, tcp = open_both(listen, beside, reuseport=reuseport)
    opened = BoundSockets([udp], tcp)
    bound = listen._replace(port=udp.getsockname()[1])
    try:
        opened.udp.extend(open_more_udp(bound, (udp, *beside), workers - 1))
    except ListenError:
        opened.close()
        raise
    _share(opened.udp, reuseport or workers > 1)
    return opened


def open_more_udp(
    listen: ListenAddress,
    beside: Collection[socket.socket],
    count: int,
    *,
    reuseport: bool = False,
) -> list[socket.socket]:
    """Bind UDP sockets to an address that this process already has; raise ListenError."""
    opened: list[socket.socket] = []
    try:
        for _ in range(count):
            with _sharing([*beside, *opened]):
                opened.append(open_udp(listen, shared=bool(beside or opened)))
    except ListenError:
        BoundSockets(opened, None).close()
        raise
    _share(opened, reuseport or count > 1)
    return opened


@contextlib.contextmanager
def _sharing(sockets: Collection[socket.socket]) -> Iterator[None]:
    """Let others join these sockets on their port meanwhile.

    Those of workers have SO_REUSEPORT anyway, because the kernel spreads datagrams only over sockets that have it.
    """
    alone = [
        each for each in sockets if not each.getsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT)
    ]
    _share(alone, True)
    try:
        yield
    finally:
        _share(alone, False)


def leave_port(sock: socket.socket) -> None:
    """Let the other sockets of the port, if there are any, have all further datagrams; it still sends.

    The kernel takes a connected socket out of the choice (net/core/sock_reuseport.c); its own address sends nothing.
    """
    with contextlib.suppress(OSError):
        if sock.getsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT):
            sock.connect(sock.getsockname())


def _share(sockets: Collection[socket.socket], shared: bool) -> None:
    for sock in sockets:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, shared)


def endpoint_of(address: tuple[Any, ...]) -> Endpoint:
    """The endpoint of a socket address; an IPv4-mapped address of a dual-stack socket becomes IPv4."""
    host: str = address[0]
    return Endpoint(plain_ipv4(host), address[1])


def plain_ipv4(host: str) -> str:
    """The IPv4 address in an IPv4-mapped one; other addresses are unchanged."""
    return host.removeprefix(MAPPED) if "." in host else host


def _bind(listen: ListenAddress, kind: socket.SocketKind, shared: bool) -> socket.socket:
    last: OSError | None = None
    for family, host in _families(listen):
        try:
            sock = socket.socket(family, kind)
        except OSError as error:
            last = error
            continue
        try:
            if kind == socket.SOCK_STREAM:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, not listen.is_wildcard)
            _share((sock,), shared)
            sock.setblocking(False)
            sock.bind((host, listen.port))
        except OSError as error:
            sock.close()
            last = error
            if error.errno not in (errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL):
                break
        else:
            return sock
    raise ListenError(_sentence(listen, kind, last))


def _families(listen: ListenAddress) -> Iterator[tuple[socket.AddressFamily, str]]:
    if listen.is_wildcard:
        if socket.has_ipv6:
            yield socket.AF_INET6, "::"
        yield socket.AF_INET, "0.0.0.0"
    elif ":" in listen.host:
        yield socket.AF_INET6, listen.host
    else:
        yield socket.AF_INET, listen.host


def _sentence(listen: ListenAddress, kind: socket.SocketKind, error: OSError | None) -> str:
    protocol = "UDP" if kind == socket.SOCK_DGRAM else "TCP"
    where = f"cannot listen on {protocol} {listen.server.partition('://')[2]}"
    if error is None:
        return f"{where}: this host has no IP"
    if error.errno == errno.EADDRINUSE:
        return f"{where}: another program has the port; stop it or change the key's port (or --dns.port)"
    if error.errno == errno.EACCES:
        return (
            f"{where}: ports below 1024 need a right; "
            "grant CAP_NET_BIND_SERVICE or change the key's port (or --dns.port)"
        )
    if error.errno == errno.EADDRNOTAVAIL:
        return f"{where}: this host has no such address; change the block's bind (or --listen)"
    return f"{where}: {error.strerror or error}"


def client_endpoint(address: bytes) -> Endpoint:
    """The sender from its sockaddr; an IPv4-mapped address becomes IPv4, a link-local one keeps its scope."""
    host, port, *more = read_address(address)
    if more and more[1]:
        host = f"{host}%{more[1]}"
    return endpoint_of((host, port))


def socket_address(client: Endpoint) -> bytes:
    """The sockaddr of a connection's client; client_endpoint() reverses it."""
    if ":" in client.address:
        return write_address(socket.AF_INET6, (*client, 0, 0))
    return write_address(socket.AF_INET, client)


def asked_endpoint(control: bytes, local: Endpoint) -> Endpoint:
    """The local address that the client sent to, from the control data; `local` if they do not contain it."""
    for level, kind, data in read_messages(control):
        if (level, kind) == (socket.IPPROTO_IP, IP_PKTINFO) and len(data) >= 12:
            return Endpoint(socket.inet_ntop(socket.AF_INET, data[8:12]), local.port)
        if (level, kind) == (socket.IPPROTO_IPV6, IPV6_PKTINFO) and len(data) >= 16:
            return Endpoint(plain_ipv4(socket.inet_ntop(socket.AF_INET6, data[:16])), local.port)
    return local


class Limits(NamedTuple):
    """The limits of a connection, times in seconds; the defaults are CoreDNS's."""

    read: float = 3.0  # for the first message, and for the rest of a message that has begun
    write: float = 5.0  # for a client to read its replies
    idle: float = 10.0  # between messages
    max_queries: int = UNLIMITED


DEFAULT_LIMITS: Final = Limits()


class Settings(NamedTuple):
    """All settings; `workers` is None if the command line decides, `max_connections` 0 for any number."""

    limits: Limits = DEFAULT_LIMITS
    tls: ssl.SSLContext | None = None
    workers: int | None = None
    max_connections: int = 0


DEFAULT_SETTINGS: Final = Settings()


def settings_of(listener: ServedAddress) -> Settings:
    """Read the settings from a listener's blocks."""
    blocks = [block.plugins for blocks in listener.served.values() for block in blocks]
    scheme, limits, workers, most = listener.listen.scheme, DEFAULT_LIMITS, None, None
    for plugin in (plugin for block in blocks for plugin in block):
        if isinstance(plugin, Timeouts):
            limits = Limits(
                plugin.read or limits.read,
                plugin.write or limits.write,
                plugin.idle or limits.idle,
                plugin.maxtcpqueries or limits.max_queries,
            )
    for plugin in blocks[0]:
        if isinstance(plugin, Multisocket):
            workers = plugin.sockets or usable_cpus()
        elif isinstance(plugin, Https) and most is None:
            most = plugin.max_connections
    tls = listener.find_tls() if scheme != "dns" else None
    most = (DEFAULT_CONNECTIONS if most is None else most) if scheme == "https" else 0
    return Settings(limits, None if tls is None else tls.context, workers, most)
