"""Opens TCP connections at a steady rate and sends nothing on them.

    python -m loadtest.pressure.silent PORT RATE SECONDS MOST

Path: clients.py starts it -> the HTTP port of the server under test.
Rule 1: at most MOST are open; then the oldest is reset.  They use several local addresses, because one has too few
        ports.
Prints one line of JSON: the number of connections begun, and of those that were not refused.
"""

from __future__ import annotations

import errno
import json
import resource
import socket
import struct
import sys
import time
from collections import deque
from collections.abc import Sequence
from typing import Final

SOURCES: Final = 8  # addresses from 127.0.0.11 on
_TURN = 0.005
_MOST_LATE = 0.05  # seconds after which overdue connections are left out
_RESET = struct.pack("ii", 1, 0)


def main(words: Sequence[str]) -> None:
    """Open connections, and print the counts."""
    port, rate, seconds, most = int(words[0]), float(words[1]), float(words[2]), int(words[3])
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    held: deque[socket.socket] = deque()
    began = time.monotonic()
    turn = sent = taken = 0
    while (now := time.monotonic()) < began + seconds:
        due = int((now - began) * rate)
        turn = max(turn, due - int(rate * _MOST_LATE))
        while turn < due:
            turn += 1
            sent += 1
            taken += _open(held, port, turn)
            if len(held) > most:
                held.popleft().close()
        time.sleep(_TURN)
    for sock in held:
        sock.close()
    print(json.dumps({"offered": int(rate * seconds), "sent": sent, "answered": taken}))


def _open(held: deque[socket.socket], port: int, number: int) -> bool:
    try:
        sock = socket.socket()
    except OSError:  # no more descriptors
        held.popleft().close()
        return False
    sock.setblocking(False)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        sock.bind((f"127.0.0.{11 + number % SOURCES}", 0))
        result = sock.connect_ex(("127.0.0.1", port))
    except OSError as error:
        result = error.errno or errno.EIO
    if result not in (0, errno.EINPROGRESS):
        sock.close()
        return False
    held.append(sock)
    return True


if __name__ == "__main__":
    main(sys.argv[1:])
