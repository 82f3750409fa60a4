"""What only the portable batch has to do; all else is in test_batch.py, which runs on it too."""

import gc
import os
import socket

import pytest

from hsdns.fastpath.portable_batch import PortableBatch

pytestmark = pytest.mark.sockets


def test_the_socket_stays_its_owners() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.bind(("127.0.0.1", 0))
        gc.collect()  # what other tests have left behind goes now, and not below
        before = set(os.listdir("/proc/self/fd"))
        batch = PortableBatch(sock.fileno(), False)
        assert batch.serve(None) == []
        assert set(os.listdir("/proc/self/fd")) <= before
        del batch
        gc.collect()
        assert set(os.listdir("/proc/self/fd")) <= before
        sock.getsockname()


def test_no_socket() -> None:
    with open(os.devnull, "rb") as file, pytest.raises(OSError, match=r"(?i)socket"):
        PortableBatch(file.fileno(), False)
