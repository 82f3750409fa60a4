"""Addresses as the kernel gives them: made here by the kernel itself, or by hand where it would not do it."""

from __future__ import annotations

import socket
import struct

import pytest

from hsdns.chain import Endpoint
from hsdns.fastpath.control import IP_PKTINFO, IPV6_PKTINFO
from hsdns.server.sockets import asked_endpoint, client_endpoint, socket_address

LOCAL = Endpoint("0.0.0.0", 53)
MAPPED = bytes(10) + b"\xff\xff"


def sockaddr(family: int, port: int, rest: bytes) -> bytes:
    return struct.pack("=H", family) + port.to_bytes(2, "big") + rest


def ipv6(address: bytes, port: int = 5353, scope: int = 0) -> bytes:
    rest = bytes(4) + address + struct.pack("=I", scope)
    return sockaddr(socket.AF_INET6, port, rest)


def message(level: int, kind: int, data: bytes) -> bytes:
    """One control message, padded to eight octets."""
    found = struct.pack("=Qii", 16 + len(data), level, kind) + data
    return found + bytes(-len(found) % 8)


@pytest.mark.parametrize(
    ("address", "endpoint"),
    [
        pytest.param(sockaddr(socket.AF_INET, 40000, bytes((192, 0, 2, 1)) + bytes(8)), ("192.0.2.1", 40000), id="ipv4"),
        pytest.param(ipv6(socket.inet_pton(socket.AF_INET6, "2001:db8::5")), ("2001:db8::5", 5353), id="ipv6"),
        pytest.param(ipv6(MAPPED + bytes((10, 0, 0, 9))), ("10.0.0.9", 5353), id="mapped"),
        pytest.param(ipv6(socket.inet_pton(socket.AF_INET6, "fe80::1"), 0xFFFF, 7), ("fe80::1%7", 65535), id="link-local"),
        pytest.param(ipv6(bytes(16), 0), ("::", 0), id="nothing"),
    ],
)  # fmt: skip
def test_client(address: bytes, endpoint: tuple[str, int]) -> None:
    assert client_endpoint(address) == endpoint


@pytest.mark.parametrize(
    "client",
    [
        Endpoint("192.0.2.1", 40000),
        Endpoint("2001:db8::5", 65535),
        Endpoint("fe80::1", 5353),
        Endpoint("::", 0),
    ],
)
def test_client_of_a_connection(client: Endpoint) -> None:
    assert client_endpoint(socket_address(client)) == client


IN_PKTINFO = struct.pack("=I", 3) + bytes((127, 0, 0, 2)) + bytes((192, 0, 2, 53))
IN6_PKTINFO = socket.inet_pton(socket.AF_INET6, "2001:db8::35") + struct.pack("=I", 3)
MAPPED_PKTINFO = MAPPED + bytes((192, 0, 2, 53)) + struct.pack("=I", 3)
OTHER = message(socket.SOL_SOCKET, socket.SO_TIMESTAMP, bytes(5)) if hasattr(socket, "SO_TIMESTAMP") else message(1, 29, bytes(5))  # fmt: skip


@pytest.mark.parametrize(
    ("control", "address"),
    [
        pytest.param(b"", "0.0.0.0", id="nothing"),
        pytest.param(message(socket.IPPROTO_IP, IP_PKTINFO, IN_PKTINFO), "192.0.2.53", id="ipv4"),
        pytest.param(message(socket.IPPROTO_IPV6, IPV6_PKTINFO, IN6_PKTINFO), "2001:db8::35", id="ipv6"),
        pytest.param(message(socket.IPPROTO_IPV6, IPV6_PKTINFO, MAPPED_PKTINFO), "192.0.2.53", id="mapped"),
        pytest.param(OTHER + message(socket.IPPROTO_IP, IP_PKTINFO, IN_PKTINFO), "192.0.2.53", id="second"),
        pytest.param(OTHER, "0.0.0.0", id="another-kind"),
        pytest.param(message(socket.IPPROTO_IPV6, IP_PKTINFO, IN_PKTINFO), "0.0.0.0", id="another-level"),
        pytest.param(message(socket.IPPROTO_IP, IP_PKTINFO, IN_PKTINFO[:8]), "0.0.0.0", id="cut"),
        pytest.param(bytes(64), "0.0.0.0", id="length-of-nothing"),
        pytest.param(b"\x10", "0.0.0.0", id="shorter-than-a-header"),
    ],
)  # fmt: skip
def test_asked(control: bytes, address: str) -> None:
    assert asked_endpoint(control, LOCAL) == (address, LOCAL.port)
