"""What the kernel says about a datagram besides its bytes: who sent it, and to which of our addresses.

Path: udp.py and workers.py get both from the fast path as the kernel wrote them -> here -> Endpoint.
Source: Linux uapi linux/in.h, linux/in6.h, linux/socket.h; 64-bit layouts.
"""

from __future__ import annotations

import socket
import struct
from typing import Final

from hsdns.chain import Endpoint
from hsdns.server.listener import IP_PKTINFO, IPV6_PKTINFO, plain_ipv4

_HEADER: Final = struct.Struct("=Qii")  # cmsg_len, cmsg_level, cmsg_type
_ALIGNMENT: Final = 8


def client_endpoint(address: bytes) -> Endpoint:
    """The sender from its sockaddr; an IPv4-mapped address is plain IPv4."""
    port = address[2] << 8 | address[3]
    if int.from_bytes(address[:2], "little") == socket.AF_INET:
        return Endpoint(socket.inet_ntop(socket.AF_INET, address[4:8]), port)
    text = socket.inet_ntop(socket.AF_INET6, address[8:24])
    scope = int.from_bytes(address[24:28], "little")
    if scope:
        text += f"%{scope}"
    return Endpoint(plain_ipv4(text), port)


def asked_endpoint(control: bytes, local: Endpoint) -> Endpoint:
    """The address that the client sent to, from the control data; `local` where they do not say."""
    at = 0
    while at + _HEADER.size <= len(control):
        length, level, kind = _HEADER.unpack_from(control, at)
        if length < _HEADER.size:
            break
        data = control[at + _HEADER.size : at + length]
        if level == socket.IPPROTO_IP and kind == IP_PKTINFO and len(data) >= 12:
            return Endpoint(socket.inet_ntop(socket.AF_INET, data[8:12]), local.port)
        if level == socket.IPPROTO_IPV6 and kind == IPV6_PKTINFO and len(data) >= 16:
            return Endpoint(plain_ipv4(socket.inet_ntop(socket.AF_INET6, data[:16])), local.port)
        at += -(-length // _ALIGNMENT) * _ALIGNMENT
    return local
