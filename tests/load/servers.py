"""Servers in threads: one over UDP that answers every query, one that does to each connection what a test says, and hsdns."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import NamedTuple

from loadtest.ports import free_port
from tests.support.upstreams.certificate import Certificate, make_certificate

RECORD = b"\xc0\x0c\0\1\0\1\0\0\0\5\0\4\x0a\0\0\1"


def answer(query: bytes) -> bytes:
    """The reply to a query without EDNS."""
    return query[:2] + b"\x84\0\0\1\0\1\0\0\0\0" + query[12:] + RECORD


@contextmanager
def server(reply: bytes | None = None, *, ignored: int = 0) -> Iterator[int]:
    """Serve on loopback; yield the port.  `reply` in place of an answer, after so many queries without one."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.bind(("127.0.0.1", 0))
        port = sock.getsockname()[1]

        def serve() -> None:
            left = ignored
            while True:
                query, client = sock.recvfrom(4096)
                if not query:
                    return
                if left:
                    left -= 1
                    continue
                sock.sendto(answer(query) if reply is None else reply, client)

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield port
        finally:
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as end:
                while thread.is_alive():  # asked again: a queue full of queries drops it
                    end.sendto(b"", ("127.0.0.1", port))
                    thread.join(0.1)


# --- over connections ---

ROOT = Path(__file__).resolve().parents[2]
NAME = "dns.test"


def well(connection: socket.socket) -> None:
    """Answer every query, one after the other."""
    while head := connection.recv(2):
        query = connection.recv(int.from_bytes(head, "big"), socket.MSG_WAITALL)
        found = answer(query)
        connection.sendall(len(found).to_bytes(2, "big") + found)


@contextmanager
def stream_server(handle: Callable[[socket.socket], None] = well) -> Iterator[int]:
    """Serve connections, each in a thread that ends with it; yield the port."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        threads: list[threading.Thread] = []
        connections: list[socket.socket] = []

        def one(connection: socket.socket) -> None:
            with connection, suppress(OSError):
                handle(connection)

        def accept() -> None:
            while True:
                connection, _ = listener.accept()
                if not listening[0]:
                    connection.close()
                    return
                connections.append(connection)
                threads.append(threading.Thread(target=one, args=(connection,)))
                threads[-1].start()

        listening = [True]
        accepting = threading.Thread(target=accept)
        accepting.start()
        port = listener.getsockname()[1]
        try:
            yield port
        finally:
            listening[0] = False
            socket.create_connection(("127.0.0.1", port)).close()
            accepting.join()
            for connection in connections:
                with suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)
            for thread in threads:
                thread.join()


class Ports(NamedTuple):
    """Where hsdns listens, and its certificate, which is for NAME."""

    tcp: int
    dot: int
    doh: int
    certificate: Certificate


@contextmanager
def hsdns(folder: Path, *source: str) -> Iterator[Ports]:
    """Serve a cluster with hsdns over UDP and TCP, TLS and HTTPS."""
    ports = Ports(free_port(), free_port(), free_port(), make_certificate(folder, NAME))
    tls = f"tls {ports.certificate.cert} {ports.certificate.key}"
    corefile = folder / "Corefile"
    corefile.write_text(
        f"cluster.local:{ports.tcp} {{\n  kubernetes cluster.local\n}}\n"
        f"tls://cluster.local:{ports.dot} {{\n  {tls}\n  kubernetes cluster.local\n}}\n"
        f"https://cluster.local:{ports.doh} {{\n  {tls}\n  kubernetes cluster.local\n}}\n"
    )
    words = [sys.executable, "-m", "hsdns", "serve", "-conf", str(corefile), "-source", *source]
    environ = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=environ
    ) as server:
        try:
            assert server.stdout is not None, "a pipe"
            while not _listens(ports.doh):
                assert server.poll() is None, server.stdout.read()
            yield ports
        finally:
            server.terminate()


def _listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), 0.5).close()
    except OSError:
        return False
    return True


# --- over HTTP ---


@contextmanager
def http_server(answer: Callable[[], tuple[int, bytes]]) -> Iterator[tuple[int, list[tuple[str, str, bytes]]]]:  # fmt: skip
    """Answer requests in turn; the port, and of each request method and authorization, path and body."""
    asked: list[tuple[str, str, bytes]] = []

    class Handler(BaseHTTPRequestHandler):
        def handle_any(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            asked.append((f"{self.command} {self.headers['Authorization']}", self.path, body))
            status, found = answer()
            self.send_response(status)
            self.send_header("Location", "/y")
            self.end_headers()
            self.wfile.write(found)

        do_GET = do_PATCH = do_POST = do_PUT = do_DELETE = handle_any  # noqa: N815 - as http.server calls them

        def log_message(self, *words: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server.server_port, asked
        finally:
            server.shutdown()
            thread.join()
