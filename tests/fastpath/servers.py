"""Answer tables with real sockets on loopback, with every kind of batch.

Path: tests only.
Rule 1: what a client sends over loopback has arrived when send returns, so one serve() answers all of it.
"""

from __future__ import annotations

import socket
from types import ModuleType
from typing import Any, Final

import pytest

from hsdns.fastpath.control import IP_PKTINFO
from hsdns.server.transport.sockets import IPV6_RECVPKTINFO
from tests.fastpath.twins import BOTH, TableUnderTest

PORTABLE: Final = "portable"
KINDS: Final = [*BOTH, pytest.param(PORTABLE, id=PORTABLE)]
DEADLINE: Final = 30.0  # seconds


class Server:
    """A bound socket with its batch and its table."""

    def __init__(self, twin: ModuleType, kind: Any) -> None:
        self.under_test = TableUnderTest(twin)
        self.kind = kind
        self.sockets: list[socket.socket] = []

    def bind(self, host: str = "127.0.0.1", wildcard: bool = False) -> None:
        """Open the socket, and the batch around it."""
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self.sock = self._open(family, host)
        if wildcard and family == socket.AF_INET6:
            self.sock.setsockopt(socket.IPPROTO_IPV6, IPV6_RECVPKTINFO, 1)
        elif wildcard:
            self.sock.setsockopt(socket.IPPROTO_IP, IP_PKTINFO, 1)
        self.sock.setblocking(False)
        self.port: int = self.sock.getsockname()[1]
        self.batch = self.kind(self.sock.fileno(), wildcard)

    def client(self, host: str = "127.0.0.1") -> socket.socket:
        """A socket that receives datagrams of this server from that address alone."""
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        sock = self._open(family, "::1" if ":" in host else "127.0.0.1")
        sock.settimeout(DEADLINE)
        sock.connect((host, self.port))
        return sock

    def serve(self) -> list[tuple[bytes, bytes, bytes]]:
        """Serve one batch."""
        return [
            (bytes(query), address, control)
            for query, address, control in self.batch.serve(self.under_test.table)
        ]

    def ask(self, client: socket.socket, query: bytes) -> bytes:
        """Send a query that is a hit, and return the reply."""
        client.send(query)
        assert self.serve() == []
        return client.recv(65535)

    def close(self) -> None:
        """Close all sockets."""
        for sock in self.sockets:
            sock.close()

    def _open(self, family: socket.AddressFamily, host: str) -> socket.socket:
        try:
            sock = socket.socket(family, socket.SOCK_DGRAM)
            self.sockets.append(sock)
            if family == socket.AF_INET6:
                sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, host != "::")
            sock.bind((host, 0))
        except OSError:
            if family == socket.AF_INET6:
                pytest.skip("this host has no IPv6, so nothing is asked over it")
            raise
        return sock
