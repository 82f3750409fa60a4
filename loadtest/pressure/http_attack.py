"""Clients that attack the ports with HTTP pages.

    python -m loadtest.pressure.http_attack KIND PORT SECONDS CLIENTS RATE

Path: clients.py starts it -> the HTTP port of the server under test.
Rule 1: `head`: each client sends header lines without end, on one connection at a time.  `bad`: the clients together
        send RATE requests a second that are not valid.  `streams`: the clients hold as many event streams of
        `dashboard` as they get, and an honest one opens the page and its stream RATE times a second.
Rule 2: attackers have the address HEAVY; a client whose connection ends connects again, after 50 ms if it was refused.
Prints one line of JSON: the number of requests begun, and of those that were answered; for `streams` of the honest one.
"""

from __future__ import annotations

import contextlib
import json
import socket
import sys
import threading
import time
from collections.abc import Sequence
from typing import Final

from loadtest.pressure.clients import HEAVY, HONEST

AGAIN: Final = 0.05  # seconds
_TIMEOUT = 2.0
_BLOCK: Final = (b"X-A: " + b"a" * 1000 + b"\r\n") * 64
_HEAD: Final = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n"
BAD: Final = (
    b"GET / HTTP/9.9\r\nHost: localhost\r\n\r\n",
    b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
    b"POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nno number\r\n",
    b"GET /%b HTTP/1.1\r\nHost: localhost\r\n\r\n" % (b"a" * 20_000),
)
_PAGE: Final = b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
_STREAM: Final = b"GET /v1/top/events HTTP/1.1\r\nHost: localhost\r\n\r\n"


class Attack:
    """All clients of an attack, with their counts."""

    def __init__(self, kind: str, port: int, until: float, clients: int, rate: float) -> None:
        self.kind, self.sent, self.answered = kind, 0, 0
        self._port, self._until = port, until
        self._every = 1 / rate if kind == "streams" else clients / rate if kind == "bad" else 0.0
        act = {"head": self._endless, "bad": self._bad, "streams": self._hold}[kind]
        self._threads = [threading.Thread(target=self._go_on, args=(act,)) for _ in range(clients)]
        if kind == "streams":
            self._threads.append(threading.Thread(target=self._go_on, args=(self._honest,)))

    def run(self) -> None:
        """Attack until the end."""
        for each in self._threads:
            each.start()
        for each in self._threads:
            each.join()

    def _go_on(self, act: object) -> None:
        assert callable(act)
        while time.monotonic() < self._until:
            try:
                act()
            except OSError:
                time.sleep(AGAIN)

    def _count(self, is_answered: bool) -> None:
        self.answered += is_answered

    def _connect(self, source: str = HEAVY) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self._port), _TIMEOUT, (source, 0))

    def _endless(self) -> None:
        self.sent += 1
        with self._connect() as sock:
            sock.sendall(_HEAD)
            with contextlib.suppress(OSError):
                while time.monotonic() < self._until:
                    sock.sendall(_BLOCK)
            self._count(sock.recv(64).startswith(b"HTTP/1.1 431"))

    def _bad(self) -> None:
        self.sent += 1
        with self._connect() as sock:
            sock.sendall(BAD[self.sent % len(BAD)])
            self._count(sock.recv(64)[9:10] in (b"4", b"5"))
        time.sleep(self._every)

    def _hold(self) -> None:
        with self._connect() as sock:
            sock.sendall(_STREAM)
            while time.monotonic() < self._until and b" 503 " not in (data := sock.recv(65_536)):
                if not data:
                    return
        time.sleep(AGAIN)

    def _honest(self) -> None:
        time.sleep(self._every)
        self.sent += 1
        with self._connect(HONEST) as page, self._connect(HONEST) as stream:
            page.sendall(_PAGE)
            stream.sendall(_STREAM)
            found = [each.recv(64).startswith(b"HTTP/1.1 200") for each in (page, stream)]
            self._count(all(found))


def main(words: Sequence[str]) -> None:
    """Attack, and print the counts."""
    kind, port, seconds, clients, rate = words
    until = time.monotonic() + float(seconds)
    attack = Attack(kind, int(port), until, int(clients), float(rate))
    attack.run()
    print(json.dumps({"offered": attack.sent, "sent": attack.sent, "answered": attack.answered}))


if __name__ == "__main__":
    main(sys.argv[1:])
