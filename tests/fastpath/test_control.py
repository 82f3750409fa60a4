"""Socket addresses and control data."""

import errno
import os
import socket
import struct

import pytest

from hsdns.fastpath.control import (
    family_of,
    is_ipv6,
    read_address,
    read_messages,
    reply_messages,
    write_address,
    write_messages,
)

V4 = socket.inet_aton("127.0.0.2")
GLOBAL = socket.inet_pton(socket.AF_INET6, "2001:db8::1")
LINK = socket.inet_pton(socket.AF_INET6, "fe80::1")
MAPPED = socket.inet_pton(socket.AF_INET6, "::ffff:127.0.0.2")


def asked_v4(index: int, source: bytes = V4, destination: bytes = V4) -> tuple[int, int, bytes]:
    return socket.IPPROTO_IP, 8, struct.pack("=i4s4s", index, source, destination)


def asked_v6(address: bytes, index: int) -> tuple[int, int, bytes]:
    return socket.IPPROTO_IPV6, 50, address + struct.pack("=I", index)


@pytest.mark.parametrize(
    ("received", "sent"),
    [
        ([asked_v4(3)], [asked_v4(0, V4, bytes(4))]),
        ([asked_v6(GLOBAL, 3)], [asked_v6(GLOBAL, 0)]),
        ([asked_v6(MAPPED, 3)], [asked_v6(MAPPED, 0)]),
        ([asked_v6(LINK, 3)], [asked_v6(LINK, 3)]),
        ([asked_v4(3), asked_v6(MAPPED, 3)], [asked_v4(0, V4, bytes(4)), asked_v6(MAPPED, 0)]),
        ([(socket.SOL_SOCKET, 29, bytes(16)), asked_v4(3)], [asked_v4(0, V4, bytes(4))]),
        ([(socket.IPPROTO_IP, 8, bytes(4))], []),
        ([], []),
    ],
    ids=["IPv4", "IPv6", "mapped", "link-local", "both", "another before it", "too short", "none"],
)
def test_a_reply_leaves_from_the_address_that_was_asked(
    received: list[tuple[int, int, bytes]], sent: list[tuple[int, int, bytes]]
) -> None:
    assert reply_messages(write_messages(received)) == sent


@pytest.mark.parametrize("cut", range(1, 28))
def test_incomplete_control_messages_are_not_read(cut: int) -> None:
    control = write_messages([asked_v4(3)])
    assert len(control) == 32
    assert list(read_messages(control)) == [asked_v4(3)]
    assert list(read_messages(control[: 28 - cut])) == []


def test_a_length_below_the_header_ends_the_messages() -> None:
    assert list(read_messages(struct.pack("=Qii", 0, 0, 8) * 4)) == []


@pytest.mark.parametrize(
    ("family", "address", "ipv6"),
    [
        (socket.AF_INET, ("127.0.0.1", 5353), False),
        (socket.AF_INET6, ("::1", 53, 0, 0), True),
        (socket.AF_INET6, ("::ffff:127.0.0.1", 53, 0, 0), False),
        (socket.AF_INET6, ("fe80::1", 65535, 7, 3), True),
    ],
)
def test_addresses(family: int, address: tuple[object, ...], ipv6: bool) -> None:
    octets = write_address(family, address)
    assert len(octets) == (16 if family == socket.AF_INET else 28)
    assert read_address(octets) == address
    assert is_ipv6(octets) is ipv6


@pytest.mark.sockets
def test_a_closed_descriptor() -> None:
    with socket.socket() as sock:
        fd = sock.fileno()
    with pytest.raises(OSError, match=os.strerror(errno.EBADF)):
        family_of(fd)
