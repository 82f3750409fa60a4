"""Faults between an API server and its clients, each for one request.

Path: a test -> FakeCluster.fail(fault) -> Response.fault -> the sender of the body (FaultInjector cuts it).
Rule 1: a fault with a status replaces the response; one without lets the true response begin.
Source: Kubernetes API concepts, and what proxies and load balancers in front of an API server send.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

import msgspec

JSON: Final = {"Content-Type": "application/json"}


class Fault(NamedTuple):
    """A fault of one request; octets are those of the body.

    `then`: what happens to the connection: "refused" before a response, or `at` octets of the body "cut", "ended" (as
    if the body was complete) or "silent".
    """

    status: int = 0  # 0: the status of the true response
    headers: Mapping[str, str] = JSON
    body: bytes = b""
    then: str = ""
    at: int = 0
    piece: int = 0  # octets sent at a time; 0: no limit

    @property
    def refused(self) -> bool:
        """Whether the connection ends before a response."""
        return self.then == "refused"


def status_body(code: int, reason: str, message: str, **more: object) -> bytes:
    """Encode a metav1.Status; `more` are further fields of it."""
    status = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure"}
    return msgspec.json.encode({**status, "message": message, "reason": reason, **more, "code": code})  # fmt: skip


def error_line(status: bytes) -> bytes:
    """Wrap a Status in an ERROR event."""
    return b'{"type":"ERROR","object":%b}\n' % status


class FaultInjector:
    """Applies a fault to a body: feed() the octets that are due, then check `outcome`.

    `outcome` is "" while the body continues, else "cut", "ended" or "silent".
    """

    def __init__(self, fault: Fault) -> None:
        self._piece, self._then = fault.piece, fault.then
        self._left = fault.at if fault.then else None
        self.outcome = "" if self._left else fault.then

    def feed(self, data: bytes) -> list[bytes]:
        """Accept octets that are due, return the pieces to send."""
        if self._left is not None:
            data = data[: self._left]
            self._left -= len(data)
            if self._left == 0:
                self.outcome = self._then
        size = self._piece or len(data) or 1
        return [data[at : at + size] for at in range(0, len(data), size)]
