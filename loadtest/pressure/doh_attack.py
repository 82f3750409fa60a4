"""Clients that attack DNS over HTTPS, each with one HTTP/2 connection at a time.

    python -m loadtest.pressure.doh_attack KIND PORT SECONDS CLIENTS SHARE NAME

Path: clients.py starts it -> http2.py (frames) -> the server under test.
Rule 1: KIND is one of http2.ATTACKS; SHARE scales its frames a second.  Each write contains the frames that are due
        since the last one; for `requests` it contains exactly 50.
Rule 2: a client whose connection the server closes connects again after 50 ms.
Prints one line of JSON: the number of sent units of the attack, of replies (HEADERS frames), and of connections that
the server closed.
"""

from __future__ import annotations

import json
import socket
import ssl
import sys
import threading
import time
from collections.abc import Sequence
from typing import Final

from hsdns.http2 import GOAWAY, HEADERS, split
from loadtest.dns import query_of
from loadtest.pressure.http2 import ATTACKS, dns_path, opening

TURN: Final = 0.01  # seconds between two writes
AT_ONCE: Final = 50  # requests in a write
AGAIN: Final = 0.05  # seconds until a closed connection is opened again
_TIMEOUT = 1.0
_LAST_STREAM = (1 << 31) - 1


class Attacker(threading.Thread):
    """One client; its counts are read when it has ended."""

    def __init__(self, kind: str, port: int, until: float, share: float, name: str) -> None:
        super().__init__()
        self.sent = self.replies = self.sent_away = 0
        self._attack = ATTACKS[kind]
        self._rate = self._attack.units * share
        self._at_once = AT_ONCE if kind == "requests" else 1
        self._port = port
        self._until = until
        self._path = dns_path(query_of(name, "A"))
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        self._context.check_hostname = False
        self._context.verify_mode = ssl.CERT_NONE
        self._context.set_alpn_protocols(["h2"])

    def run(self) -> None:
        """Attack until the time is over."""
        while time.monotonic() < self._until:
            try:
                self._connect()
            except (OSError, EOFError):
                self.sent_away += 1
                time.sleep(AGAIN)

    def _connect(self) -> None:
        with (
            socket.create_connection(("127.0.0.1", self._port), _TIMEOUT) as plain,
            self._context.wrap_socket(plain) as sock,
        ):
            sock.sendall(opening())
            received, stream = bytearray(), 1
            began, done = time.monotonic(), 0
            while (now := time.monotonic()) < self._until and stream < _LAST_STREAM:
                due = int((now - began) * self._rate) - done
                due -= due % self._at_once
                # Frames that could not be sent in time are left out.
                count = min(due, max(self._at_once, int(self._rate * 10 * TURN)))
                if count:
                    sock.settimeout(_TIMEOUT)
                    sock.sendall(self._attack.write(stream, count, self._path))
                    stream += 2 * count
                    self.sent += count
                    done += due
                self._read(sock, received)
                time.sleep(TURN)

    def _read(self, sock: ssl.SSLSocket, received: bytearray) -> None:
        sock.setblocking(False)
        try:
            while data := sock.recv(65_536):
                received += data
                for each in split(received):
                    self.replies += each.kind == HEADERS
                    if each.kind == GOAWAY:
                        raise EOFError
        except ssl.SSLWantReadError:
            return
        raise EOFError


def main(words: Sequence[str]) -> None:
    """Attack, and print the counts."""
    kind, port, seconds, clients, share, name = words
    until = time.monotonic() + float(seconds)
    attackers = [Attacker(kind, int(port), until, float(share), name) for _ in range(int(clients))]
    for each in attackers:
        each.start()
    for each in attackers:
        each.join()
    counts = {
        "offered": int(ATTACKS[kind].units * float(share) * float(seconds) * int(clients)),
        "sent": sum(each.sent for each in attackers),
        "answered": sum(each.replies for each in attackers),
        "sent_away": sum(each.sent_away for each in attackers),
    }
    print(json.dumps(counts))


if __name__ == "__main__":
    main(sys.argv[1:])
