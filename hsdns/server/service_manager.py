"""Tells the service manager, such as systemd, when the server is ready, reloads and stops.

Path: cli/launch.py makes one from NOTIFY_SOCKET, lifecycle.py calls it.
Source: sd_notify(3), "Standalone Implementations".
Rule: if the manager cannot be reached, the server logs this and serves nevertheless, without waiting.
"""

from __future__ import annotations

import logging
import socket
import time
from collections.abc import Callable, MutableMapping
from typing import Self

log = logging.getLogger("hsdns.server")


class ServiceManager:
    """The service manager behind a Unix datagram socket; with an empty address there is none, and nothing is sent.

    `address` is a path, or a name in the abstract namespace after "@"; `clock` gives monotonic nanoseconds.
    """

    def __init__(self, address: str = "", clock: Callable[[], int] = time.monotonic_ns) -> None:
        self._address = address
        self._clock = clock
        self._is_stopping = False

    @classmethod
    def of(cls, environ: MutableMapping[str, str]) -> Self:
        """Take the address from NOTIFY_SOCKET and remove the variable, because child processes must not use it."""
        address = environ.pop("NOTIFY_SOCKET", "")
        if address and address[0] not in "/@":
            log.warning(
                'NOTIFY_SOCKET is "%s", which is no Unix socket: the service manager is told nothing',
                address,
            )
            address = ""
        return cls(address)

    def ready(self, remark: str = "") -> None:
        """Report that the server serves, with `remark` as its status."""
        self._tell("READY=1", f"STATUS=Serving{remark and f'; {remark}'}")

    def reloading(self) -> None:
        """Report a reload; ready() follows."""
        self._tell("RELOADING=1", f"MONOTONIC_USEC={self._clock() // 1000}", "STATUS=Reloading")

    def stopping(self) -> None:
        """Report that the server stops; nothing is sent after that."""
        self._tell("STOPPING=1", "STATUS=Stopping")
        self._is_stopping = True

    def _tell(self, *assignments: str) -> None:
        if not self._address or self._is_stopping:
            return
        text = "\n".join(" ".join(each.split()) for each in assignments)
        name = f"\0{self._address[1:]}" if self._address[0] == "@" else self._address
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
                sock.setblocking(False)
                sock.sendto(text.encode(), name)
        except OSError as error:
            log.warning("cannot tell the service manager at %s: %s", self._address, error)
