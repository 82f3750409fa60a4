"""Clients that attack DNS over HTTPS, and the ports with HTTP pages.

    python -m loadtest.pressure.attackers KIND PORT SECONDS CLIENTS RATE NAME

Path: clients.py starts it -> hsdns/http2.py (frames) -> the server under test; run.py takes its frames, too.
Rule 1: KIND is one of ATTACKS: each client has one HTTP/2 connection at a time, and RATE scales its frames a
        second.  Each write contains the frames that are due since the last one; for `requests` it contains exactly 50.
Rule 2: `head`: each client sends header lines without end, on one connection at a time.  `bad`: the clients together
        send RATE requests a second that are not valid.  `streams`: the clients hold as many event streams of
        `dashboard` as they get, and an honest one opens the page and its stream RATE times a second.
        `explain`: a client asks `dashboard` for RATE explanations of NAME a second.
Rule 3: `silent`: RATE TCP connections a second on which nothing is sent.  At most SILENT_MOST are open; then the oldest
        is reset.  They use several local addresses, because one has too few ports.
Rule 4: attackers over HTTP have the address HEAVY; a client whose connection ends connects again, after 50 ms if it was
        refused.
Prints one line of JSON: the number of units of the attack or requests begun, and of those that were answered (HEADERS
frames, connections that were not refused, for `streams` answers to the honest client); for HTTP/2 also how many
connections the server closed.
"""

from __future__ import annotations

import base64
import contextlib
import errno
import json
import resource
import socket
import ssl
import struct
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from hsdns.http2 import (
    CONTINUATION,
    DATA,
    DEFAULT_WINDOW,
    END_HEADERS,
    END_STREAM,
    GOAWAY,
    HEADERS,
    INITIAL_WINDOW,
    MAX_FRAME_LEN,
    PING,
    PREFACE,
    RST_STREAM,
    SETTINGS,
    WINDOW_UPDATE,
    field,
    frame,
    split,
)
from loadtest.dns import query_of
from loadtest.pressure.clients import HEAVY, HONEST

# --- frames: fields are literals without indexing, so that a block does not depend on those before it

_LARGEST_WINDOW = (1 << 31) - 1
_CANCEL = 8
LONG_PATH: Final = 60_000  # octets
_ENTRY: Final = 4_000  # octets: nearly all of the table's
_NEWEST: Final = 0x80 | 62  # index of the table
_TIMES: Final = 15_000


def opening() -> bytes:
    """The first octets of a connection: the client accepts any amount of replies."""
    window = INITIAL_WINDOW.to_bytes(2, "big") + _LARGEST_WINDOW.to_bytes(4, "big")
    more = (_LARGEST_WINDOW - DEFAULT_WINDOW).to_bytes(4, "big")
    return PREFACE + frame(SETTINGS, 0, 0, window) + frame(WINDOW_UPDATE, 0, 0, more)


def client_context(protocol: str) -> ssl.SSLContext:
    """The TLS context of a client that takes any certificate; `protocol` is that of ALPN."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.set_alpn_protocols([protocol])
    return context


def header_block(path: str, *, is_post: bool = False) -> bytes:
    """Write the fields of a request."""
    method = "POST" if is_post else "GET"
    given = (":method", method), (":scheme", "https"), (":authority", "127.0.0.1"), (":path", path)
    return b"".join(field(*each) for each in given)


def request(stream: int, block: bytes, *, ends: bool = True) -> bytes:
    """Write a request in as many frames as it needs."""
    pieces = [block[at : at + MAX_FRAME_LEN] for at in range(0, len(block), MAX_FRAME_LEN)]
    out = []
    for number, piece in enumerate(pieces):
        last = END_HEADERS if number == len(pieces) - 1 else 0
        if number == 0:
            out.append(frame(HEADERS, last | (END_STREAM if ends else 0), stream, piece))
        else:
            out.append(frame(CONTINUATION, last, stream, piece))
    return b"".join(out)


class Attack(NamedTuple):
    """`units` per second on each connection; `write` makes the octets of some units, from a stream number on."""

    units: int
    write: Callable[[int, int, str], bytes]


def dns_path(query: bytes) -> str:
    """The path of a GET request for a query."""
    return "/dns-query?dns=" + base64.urlsafe_b64encode(query).rstrip(b"=").decode()


def _streams(first: int, count: int) -> range:
    return range(first, first + 2 * count, 2)


def _resets(first: int, count: int, path: str) -> bytes:
    block, code = header_block(path), _CANCEL.to_bytes(4, "big")
    return b"".join(
        request(stream, block) + frame(RST_STREAM, 0, stream, code)
        for stream in _streams(first, count)
    )


def _requests(first: int, count: int, path: str) -> bytes:
    block = header_block(path)
    return b"".join(request(stream, block) for stream in _streams(first, count))


def _frames(kind: int, payload: bytes = b"") -> Callable[[int, int, str], bytes]:
    return lambda first, count, path: frame(kind, 0, 0, payload) * count


def _paths(first: int, count: int, path: str) -> bytes:
    block = header_block(path + "&x=" + "a" * LONG_PATH)
    return b"".join(request(stream, block) for stream in _streams(first, count))


def _empty(first: int, count: int, path: str) -> bytes:
    opened = request(first, header_block(path, is_post=True), ends=False)
    return opened + frame(DATA, 0, first) * (count - 1)


def _continuations(first: int, count: int, path: str) -> bytes:
    del path
    if first == 1:  # a header block without end begins only once
        return frame(HEADERS, END_STREAM, first, header_block("/")) + _more(count - 1)
    return _more(count)


def _more(count: int) -> bytes:
    return frame(CONTINUATION, 0, 1, field("x", "y" * 64)) * count


def _bombs(first: int, count: int, path: str) -> bytes:
    """A field enters the table of the connection with its first block, and stands in each many times."""
    entry = b"\x40" + field("x", "y" * _ENTRY)[1:]  # which enters the table
    block = header_block(path) + bytes((_NEWEST,)) * _TIMES
    opened = request(first, header_block(path) + entry) if first == 1 else b""
    return opened + b"".join(request(each, block) for each in _streams(first + 2, count))


ATTACKS: Final = {
    "reset": Attack(1_000, _resets),
    "requests": Attack(1_000, _requests),
    "ping": Attack(10_000, _frames(PING, b"pressure")),
    "settings": Attack(10_000, _frames(SETTINGS)),
    "paths": Attack(50, _paths),
    "empty": Attack(10_000, _empty),
    "continuation": Attack(10_000, _continuations),
    "hpack": Attack(50, _bombs),
}


# --- clients ---

AGAIN: Final = 0.05  # seconds until a closed connection is opened again
TURN: Final = 0.01  # seconds between two writes
AT_ONCE: Final = 50  # requests in a write
SILENT_MOST: Final = 12_000  # silent connections that are open at once
SOURCES: Final = 8  # addresses of silent clients, from 127.0.0.11 on
_TIMEOUT = 2.0
_DOH_TIMEOUT = 1.0
_LAST_STREAM = (1 << 31) - 1
_MOST_LATE = 0.05  # seconds after which overdue connections are left out
_RESET = struct.pack("ii", 1, 0)
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


class Client(threading.Thread):
    """One client, with its counts: `act` is repeated until the time is over."""

    def __init__(self, port: int, until: float) -> None:
        super().__init__()
        self.sent = self.answered = self.sent_away = 0
        self.port, self.until = port, until

    def run(self) -> None:
        """Attack until the time is over."""
        while time.monotonic() < self.until:
            try:
                self.act()
            except (OSError, EOFError):
                self.sent_away += 1
                time.sleep(AGAIN)

    def act(self) -> None:
        """Connect, and attack on that connection."""
        raise NotImplementedError

    def connect(self, source: str = HEAVY) -> socket.socket:
        """Connect from an address."""
        return socket.create_connection(("127.0.0.1", self.port), _TIMEOUT, (source, 0))


class Doh(Client):
    """A client over HTTP/2 with some frames a second."""

    def __init__(self, port: int, until: float, kind: str, share: float, name: str) -> None:
        super().__init__(port, until)
        self._attack = ATTACKS[kind]
        self._rate = self._attack.units * share
        self._at_once = AT_ONCE if kind == "requests" else 1
        self._path = dns_path(query_of(name, "A"))
        self._context = client_context("h2")

    def act(self) -> None:
        """Send what is due, and read."""
        with (
            socket.create_connection(("127.0.0.1", self.port), _DOH_TIMEOUT) as plain,
            self._context.wrap_socket(plain) as sock,
        ):
            sock.sendall(opening())
            received, stream = bytearray(), 1
            began, done = time.monotonic(), 0
            while (now := time.monotonic()) < self.until and stream < _LAST_STREAM:
                due = int((now - began) * self._rate) - done
                due -= due % self._at_once
                # Frames that could not be sent in time are left out.
                count = min(due, max(self._at_once, int(self._rate * 10 * TURN)))
                if count:
                    sock.settimeout(_DOH_TIMEOUT)
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
                    self.answered += each.kind == HEADERS
                    if each.kind == GOAWAY:
                        raise EOFError
        except ssl.SSLWantReadError:
            return
        raise EOFError


class Head(Client):
    """A client that sends header lines without end."""

    def act(self) -> None:
        """Send on one connection."""
        self.sent += 1
        with self.connect() as sock:
            sock.sendall(_HEAD)
            with contextlib.suppress(OSError):
                while time.monotonic() < self.until:
                    sock.sendall(_BLOCK)
            self.answered += sock.recv(64).startswith(b"HTTP/1.1 431")


class Paced(Client):
    """A client with a pause between two acts."""

    def __init__(self, port: int, until: float, every: float) -> None:
        super().__init__(port, until)
        self._every = every


class Bad(Paced):
    """A client that sends requests which are not valid, with a pause after each."""

    def act(self) -> None:
        """Send one."""
        self.sent += 1
        with self.connect() as sock:
            sock.sendall(BAD[self.sent % len(BAD)])
            self.answered += sock.recv(64)[9:10] in (b"4", b"5")
        time.sleep(self._every)


class Holder(Client):
    """A client that holds an event stream."""

    def act(self) -> None:
        """Read until the end."""
        with self.connect() as sock:
            sock.sendall(_STREAM)
            while time.monotonic() < self.until and b" 503 " not in (data := sock.recv(65_536)):
                if not data:
                    return
        time.sleep(AGAIN)


class Curious(Paced):
    """A client that asks for explanations of a name, with a pause after each."""

    def __init__(self, port: int, until: float, every: float, name: str) -> None:
        super().__init__(port, until, every)
        self._request = (
            f"GET /v1/explain?name={name} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
        )

    def act(self) -> None:
        """Ask for one; it is not parsed, because the client's work is not the server's cost."""
        self.sent += 1
        with self.connect() as sock, sock.makefile("rb") as reply:
            sock.sendall(self._request.encode())
            self.answered += b'"cause"' in reply.read()
        time.sleep(self._every)


class Honest(Paced):
    """The honest client that opens the page and its stream, with a pause before each."""

    def act(self) -> None:
        """Open both once."""
        time.sleep(self._every)
        self.sent += 1
        with self.connect(HONEST) as page, self.connect(HONEST) as stream:
            page.sendall(_PAGE)
            stream.sendall(_STREAM)
            found = [each.recv(64).startswith(b"HTTP/1.1 200") for each in (page, stream)]
            self.answered += all(found)


class Silent(Client):
    """Opens connections at a rate, and sends nothing on them."""

    def __init__(self, port: int, until: float, rate: float) -> None:
        super().__init__(port, until)
        self._rate = rate

    def run(self) -> None:
        """Open connections until the time is over."""
        _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        held: deque[socket.socket] = deque()
        began, turn = time.monotonic(), 0
        while (now := time.monotonic()) < self.until:
            due = int((now - began) * self._rate)
            turn = max(turn, due - int(self._rate * _MOST_LATE))
            while turn < due:
                turn += 1
                self.sent += 1
                self.answered += _open(held, self.port, turn)
                if len(held) > SILENT_MOST:
                    held.popleft().close()
            time.sleep(TURN / 2)
        for sock in held:
            sock.close()


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


def main(words: Sequence[str]) -> None:
    """Attack, and print the counts."""
    kind, port, seconds, clients, rate = (
        words[0], int(words[1]), float(words[2]), int(words[3]), float(words[4]),
    )  # fmt: skip
    until = time.monotonic() + seconds
    makers: dict[str, Callable[[], list[Client]]] = {
        "head": lambda: [Head(port, until) for _ in range(clients)],
        "bad": lambda: [Bad(port, until, clients / rate) for _ in range(clients)],
        "streams": lambda: [
            *(Holder(port, until) for _ in range(clients)),
            Honest(port, until, 1 / rate),
        ],
        "explain": lambda: [Curious(port, until, 1 / rate, words[5])],
        "silent": lambda: [Silent(port, until, rate)],
    }
    doh: list[Client] = [
        Doh(port, until, kind, rate, words[5]) for _ in range(clients * (kind in ATTACKS))
    ]
    attackers = doh or makers[kind]()
    for each in attackers:
        each.start()
    for each in attackers:
        each.join()
    sent = sum(each.sent for each in attackers)
    counts = {"offered": sent, "sent": sent, "answered": sum(each.answered for each in attackers)}
    if doh:
        counts["offered"] = int(ATTACKS[kind].units * rate * seconds * clients)
        counts["sent_away"] = sum(each.sent_away for each in doh)
    elif kind == "silent":
        counts["offered"] = int(rate * seconds)
    print(json.dumps(counts))


if __name__ == "__main__":
    main(sys.argv[1:])
