"""Descriptors that are asked, and stay open."""

import errno
import os
import socket

import pytest

from hsdns.fastpath.descriptor import family_of, lent

pytestmark = pytest.mark.sockets


@pytest.mark.parametrize("family", [socket.AF_INET, socket.AF_INET6])
def test_a_socket_stays_open(family: socket.AddressFamily) -> None:
    with socket.socket(family, socket.SOCK_DGRAM) as sock:
        assert family_of(sock.fileno()) == family
        with lent(sock.fileno()) as other:
            assert other.fileno() == sock.fileno()
        sock.getsockname()


def test_a_closed_descriptor() -> None:
    with socket.socket() as sock:
        fd = sock.fileno()
    with pytest.raises(OSError, match=os.strerror(errno.EBADF)):
        family_of(fd)
