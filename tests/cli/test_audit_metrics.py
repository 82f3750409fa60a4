"""The page of metrics of an audit that goes on."""

from __future__ import annotations

import socket
import urllib.request

import pytest

from hsdns.audit.report import Gauges
from hsdns.audit.servers import serve_metrics
from hsdns.cli.command import FlagError


@pytest.mark.sockets
def test_the_page() -> None:
    gauges = Gauges()
    with serve_metrics("127.0.0.1:0", gauges) as address:
        gauges.failed()
        with urllib.request.urlopen(f"http://{address}/metrics?x") as page:
            assert page.headers["Content-Type"].startswith("text/plain; version=")
            assert b"\nhsdns_audit_failures_total 1.0\n" in page.read()


@pytest.mark.sockets
def test_bad_addresses() -> None:
    with pytest.raises(FlagError), serve_metrics("here", Gauges()):
        pass
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        sentence = f"-metrics {address}: Address already in use"
        with pytest.raises(OSError, match=sentence), serve_metrics(address, Gauges()):
            pass
