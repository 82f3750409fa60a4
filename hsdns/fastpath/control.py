"""Socket addresses and control data in the kernel's layout; with control data, a reply gets the right source address.

Path: batch.py uses it, and server/transport/sockets.py for misses.
Rule 1: the layout is that of 64-bit Linux on every platform: sockaddr_in and sockaddr_in6 with the family in two octets
        of the machine's byte order, control messages with an eight-octet length and aligned to eight.
Rule 2: a reply is sent from the address that the query was sent to, through the interface that routing chooses: the
        interface index is cleared, except for link-local addresses, which are ambiguous without it.
Rule 3: the owner of a descriptor closes it; lent() makes a socket object that does not.

IP fragmentation of UDP replies: forbidden, except for a reply that is longer than the path MTU:
Rule 1: the kernel generates a fragment ID for each IPv4 datagram that may be fragmented, even with DF, by a hash and an
        atomic addition, which cost a fiftieth of a hit.  With IP_PMTUDISC_DO it generates none.
Rule 2: clients see no difference: replies up to the path MTU have DF set, longer ones are sent in fragments.
Source: ip(7), IP_MTU_DISCOVER; RFC 6864 section 4.1.
"""

from __future__ import annotations

import contextlib
import socket
import struct
import sys
from collections.abc import Iterable, Iterator
from typing import Any, Final

IP_PKTINFO: Final = 8
IPV6_PKTINFO: Final = 50
MAPPED: Final = bytes(10) + b"\xff\xff"  # prefix of an IPv4 address on a dual-stack socket

_HEADER: Final = struct.Struct("=Qii")  # length with this header, level, type
_IN: Final = struct.Struct("=4s4s4s")  # ipi_ifindex, ipi_spec_dst, ipi_addr
_IN6: Final = struct.Struct("=16sI")  # ipi6_addr, ipi6_ifindex
_SOCKADDR_IN: Final = struct.Struct("=H2s4s8x")  # family, port, address
_SOCKADDR_IN6: Final = struct.Struct("=H2sI16sI")  # family, port, flowinfo, address, scope
SOCKADDR_IN_LEN: Final = _SOCKADDR_IN.size
SOCKADDR_IN6_LEN: Final = _SOCKADDR_IN6.size


def read_messages(control: bytes) -> Iterator[tuple[int, int, bytes]]:
    """Level, type and data of each control message, up to the first incomplete one."""
    at = 0
    while at + _HEADER.size <= len(control):
        length, level, kind = _HEADER.unpack_from(control, at)
        if length < _HEADER.size or at + length > len(control):
            return
        yield level, kind, control[at + _HEADER.size : at + length]
        at += length + 7 & ~7


def write_messages(messages: Iterable[tuple[int, int, bytes]]) -> bytes:
    """The octets of control messages, one after another, each aligned."""
    return b"".join(
        _HEADER.pack(_HEADER.size + len(data), level, kind) + data + bytes(-len(data) % 8)
        for level, kind, data in messages
    )


def reply_messages(control: bytes) -> list[tuple[int, int, bytes]]:
    """The control messages that give a reply the destination address of its query as source address."""
    found: list[tuple[int, int, bytes]] = []
    for level, kind, data in read_messages(control):
        if (level, kind) == (socket.IPPROTO_IP, IP_PKTINFO) and len(data) == _IN.size:
            found.append((level, kind, _IN.pack(bytes(4), data[4:8], bytes(4))))
        elif (level, kind) == (socket.IPPROTO_IPV6, IPV6_PKTINFO) and len(data) == _IN6.size:
            link_local = data[0] == 0xFE and data[1] & 0xC0 == 0x80
            found.append((level, kind, data if link_local else data[:16] + bytes(4)))
    return found


def read_address(address: bytes) -> tuple[Any, ...]:
    """A socket address in the socket module's form: (host, port), followed by flowinfo and scope for IPv6."""
    if len(address) == _SOCKADDR_IN6.size:
        _, port, flowinfo, packed, scope = _SOCKADDR_IN6.unpack(address)
        host = socket.inet_ntop(socket.AF_INET6, packed)
        return host, int.from_bytes(port, "big"), socket.ntohl(flowinfo), scope
    _, port, packed = _SOCKADDR_IN.unpack(address)
    return socket.inet_ntop(socket.AF_INET, packed), int.from_bytes(port, "big")


def write_address(family: int, address: tuple[Any, ...]) -> bytes:
    """The octets of a socket address in the socket module's form."""
    host, port = address[0], int(address[1]).to_bytes(2, "big")
    if family == socket.AF_INET6:
        _, _, flowinfo, scope = address
        packed = socket.inet_pton(socket.AF_INET6, host.partition("%")[0])
        return _SOCKADDR_IN6.pack(family, port, socket.htonl(flowinfo), packed, scope)
    return _SOCKADDR_IN.pack(family, port, socket.inet_pton(socket.AF_INET, host))


def is_ipv6(address: bytes) -> bool:
    """Return whether a socket address is an IPv6 one; an IPv4-mapped one is not."""
    return len(address) == _SOCKADDR_IN6.size and address[8:20] != MAPPED


def family_of(fd: int) -> socket.AddressFamily:
    """The address family of an open socket; raise OSError if the descriptor is not a socket."""
    with lent(fd) as sock:
        return socket.AddressFamily(sock.family)


@contextlib.contextmanager
def lent(fd: int) -> Iterator[socket.socket]:
    """A context manager with a socket object for a descriptor, which stays open."""
    sock = socket.socket(fileno=fd)
    try:
        yield sock
    finally:
        sock.detach()


IP_MTU_DISCOVER: Final = 10  # of Linux; the socket module lacks these names
IP_PMTUDISC_WANT: Final = 1
IP_PMTUDISC_DO: Final = 2


def forbid_fragments(sock: socket.socket) -> None:
    """Make sending fail with EMSGSIZE if a datagram is too long; for IPv6 sockets this affects IPv4-mapped clients."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError):  # a kernel without the option sends as by default
            sock.setsockopt(socket.IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_DO)


@contextlib.contextmanager
def fragments_allowed(sock: socket.socket) -> Iterator[None]:
    """A context manager that allows fragments; replies of other threads meanwhile are short enough to need none."""
    sock.setsockopt(socket.IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_WANT)
    try:
        yield
    finally:
        sock.setsockopt(socket.IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_DO)
