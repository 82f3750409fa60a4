"""Probes that are repeated all the time: /health as requested by a kubelet, and one query over a new connection.

Path: run.py, soak.py -> here -> the server under test.
Rule 1: 30 ms pass between connection and request, as with a kubelet on a busy node.  More than a second is a failure.
"""

from __future__ import annotations

import socket
import ssl
import time
from collections.abc import Callable
from typing import Final, NamedTuple

from hsdns.http2 import DATA, split
from hsdns.wire.framing import frame
from loadtest.pressure.http2 import dns_path, header_block, opening, request
from loadtest.pressure.priority import raise_priority
from loadtest.process import InThread

EVERY: Final = 0.1  # seconds
PAUSE: Final = 0.03  # seconds from connection to request
TIMEOUT: Final = 1.0


class Probed(NamedTuple):
    """The number of probes, and of those that were answered in time."""

    sent: int
    answered: int


class Probes(InThread):
    """Probes of one kind, one after the other; a context manager that ends them."""

    def __init__(
        self, probe: Callable[[], bool], every: float = EVERY, within: float = TIMEOUT
    ) -> None:
        super().__init__()
        self._within = within
        self._probe = probe
        self._every = every
        self._sent = self._answered = 0

    @property
    def result(self) -> Probed:
        """The counts so far."""
        return Probed(self._sent, self._answered)

    def run(self) -> None:
        """Probe until it is over."""
        raise_priority()
        while not self._over.wait(self._every):
            began = time.monotonic()
            try:
                answered = self._probe() and time.monotonic() - began < self._within
            except OSError:
                answered = False
            self._answered += answered
            self._sent += 1  # only now: the counts are read while a probe waits


def health_probe(port: int) -> Callable[[], bool]:
    """Request /health."""

    def probe() -> bool:
        with socket.create_connection(("127.0.0.1", port), TIMEOUT) as sock:
            time.sleep(PAUSE)
            sock.sendall(b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")
            return sock.recv(64).split(b" ")[1:2] == [b"200"]

    return probe


def tcp_probe(port: int, query: bytes) -> Callable[[], bool]:
    """Send a query over TCP."""

    def probe() -> bool:
        with socket.create_connection(("127.0.0.1", port), TIMEOUT) as sock:
            sock.sendall(frame(query))
            return sock.recv(4096)[2:4] == query[:2]

    return probe


def dot_probe(port: int, query: bytes) -> Callable[[], bool]:
    """Send a query over TLS, from the address of the clients that attack over HTTPS."""
    context = _context("dot")

    def probe() -> bool:
        with _tls(context, port) as sock:
            sock.sendall(frame(query))
            return sock.recv(4096)[2:4] == query[:2]

    return probe


def doh_probe(port: int, query: bytes) -> Callable[[], bool]:
    """Send a query over HTTPS, from the address of the clients that attack there."""
    context = _context("h2")

    def probe() -> bool:
        received = bytearray()
        with _tls(context, port) as sock:
            sock.sendall(opening() + request(1, header_block(dns_path(query))))
            while data := sock.recv(4096):
                received += data
                if any(each.kind == DATA and each.payload for each in split(received)):
                    return True
        return False

    return probe


def _context(protocol: str) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.set_alpn_protocols([protocol])
    return context


def _tls(context: ssl.SSLContext, port: int) -> ssl.SSLSocket:
    return context.wrap_socket(socket.create_connection(("127.0.0.1", port), TIMEOUT))
