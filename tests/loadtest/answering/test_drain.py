"""The sockets that ask."""

import resource
import socket

import pytest

from loadtest.answering.drain import QuerySender
from loadtest.process import BenchmarkError

pytestmark = pytest.mark.sockets


def test_more_ports_than_the_process_may_open() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with socket.socket() as first:
        most = first.fileno() + 100
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(most, soft), hard))
    try:
        with pytest.raises(
            BenchmarkError, match=r"of 900 ports can be asked from: .* \(ulimit -n\)"
        ):
            QuerySender(900)
        with QuerySender(20):
            pass
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
