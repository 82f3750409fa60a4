"""Queries at a steady rate from a separate process, so that they do not slow the prober.

Path: churn.py starts `python -m loadtest.watch.queries PORT RATE SERVICES`; ends on SIGTERM.
Rule 1: names of Services in a fixed, scattered order; replies are read and discarded.
"""

from __future__ import annotations

import socket
import sys
import time
from contextlib import suppress

from loadtest.apiserver.objects import namespace_of
from loadtest.watch.dns import question, service_name

_STEP = 7919  # a prime: no Service is asked for twice before all others were


def run(port: int, rate: float, services: int) -> None:
    """Send queries until the process is terminated."""
    with socket.socket(type=socket.SOCK_DGRAM) as sock:
        sock.connect(("127.0.0.1", port))
        sock.setblocking(False)
        begin, number = time.monotonic(), 0
        while True:
            index = number * _STEP % services
            query = question(service_name(namespace_of(index), f"web-{index}"))
            with suppress(OSError):  # a full buffer or a server that is away costs one query
                sock.send((number & 0xFFFF).to_bytes(2, "big") + query)
            with suppress(OSError):  # nothing more is there
                while True:
                    sock.recv(65535)
            number += 1
            time.sleep(max(0.0, begin + number / rate - time.monotonic()))


if __name__ == "__main__":
    run(int(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3]))
