"""The kernel's data about a datagram besides its octets: its sender, and the local address that it was sent to.

Path: udp.py and workers.py get both from the fast path in the kernel's form -> here -> Endpoint.  tcp.py and doh.py
write the client's address in the kernel's form, which the fast path reads.
The octets are parsed in hsdns/fastpath/control.py.
"""

from __future__ import annotations

import socket

from hsdns.chain import Endpoint
from hsdns.fastpath.control import (
    IP_PKTINFO,
    IPV6_PKTINFO,
    read_address,
    read_messages,
    write_address,
)
from hsdns.server.sockets import endpoint_of, plain_ipv4


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
