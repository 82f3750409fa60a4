"""An answer table asked over UDP: a batch of its twin between two sockets on loopback.

Path: a test -> TableOverUdp -> Batch.serve of either twin of the fast path.
"""

from __future__ import annotations

import socket
from types import ModuleType
from typing import Any, Self

from hsdns.fastpath.control import write_address

DEADLINE = 30.0  # seconds


class TableOverUdp:
    """A server socket with a batch of a twin, and a client socket; a context manager."""

    def __init__(self, twin: ModuleType) -> None:
        self._twin = twin

    def __enter__(self) -> Self:
        self._server, self._client = (
            socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(2)
        )
        self._server.bind(("127.0.0.1", 0))
        self._server.setblocking(False)
        self._client.settimeout(DEADLINE)
        self._client.connect(self._server.getsockname())
        self._batch = self._twin.Batch(self._server.fileno(), False)
        return self

    def __exit__(self, *error: object) -> None:
        self._server.close()
        self._client.close()

    @property
    def address(self) -> bytes:
        """The client's address in the kernel's format."""
        return write_address(socket.AF_INET, self._client.getsockname())

    def ask(self, table: Any, wire: bytes) -> bytes | None:
        """The reply; None if the table has none."""
        self._client.send(wire)
        return None if self._batch.serve(table) else self._client.recv(65535)
