"""The metrics page of a continuous audit.

Path: cli/audit.py -> here -> audit/report.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

from hsdns.audit.report import Gauges
from hsdns.cli.flags import FlagError
from hsdns.corefile.keys import split_host_port

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


@contextmanager
def serve_metrics(address: str, gauges: Gauges) -> Iterator[str]:
    """Serve /metrics at HOST:PORT, and yield the address; nothing without one.  Raise FlagError or OSError."""
    if not address:
        yield ""
        return
    found = split_host_port(address)
    if found is None:
        raise FlagError(f'-metrics needs an address such as :9154, found "{address}"')

    class Page(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path.partition("?")[0] != "/metrics":
                self.send_error(HTTPStatus.NOT_FOUND)
                return
            body = gauges.registry.to_text()
            self.send_response(HTTPStatus.OK)
            self.send_header("Content-Type", CONTENT_TYPE)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args: object) -> None:
            """Do not log requests."""

    try:
        server = ThreadingHTTPServer((found.host, found.port), Page)
    except OSError as error:
        raise OSError(f"-metrics {address}: {error.strerror}") from None
    server.daemon_threads = True
    thread = Thread(target=server.serve_forever, name="metrics", daemon=True)
    thread.start()
    try:
        yield f"{server.server_address[0]!s}:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
