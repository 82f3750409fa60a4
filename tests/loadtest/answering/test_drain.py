"""The sockets that ask."""

import resource
import socket

import pytest

from loadtest.answering.drain import Filler
from loadtest.process import Failed

pytestmark = pytest.mark.sockets


def test_more_ports_than_the_process_may_open() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with socket.socket() as first:
        most = first.fileno() + 100
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(most, soft), hard))
    try:
        with pytest.raises(Failed, match=r"of 900 ports can be asked from: .* \(ulimit -n\)"):
            Filler(900)
        with Filler(20):
            pass
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
