"""How the benchmark and the servers under test connect to an API server, and the EndpointSlices that it has.

Path: created by real_api.py and fake_api_process.py; used by load.py, latency.py (changes a slice) and churn.py
      (compares all of them with the DNS answers).
"""

from __future__ import annotations

import http.client
import json
import socket
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

from loadtest.dns import service_name
from loadtest.process import BenchmarkError

PAGE = 500  # objects in one answer to a list
TIMEOUT = 120.0  # seconds for one answer


class Certificates(NamedTuple):
    """PEM files: a CA certificate, and a client's certificate and key."""

    authority: Path
    certificate: Path
    key: Path

    def context(self) -> ssl.SSLContext:
        """Create the TLS context of a client."""
        context = ssl.create_default_context(cafile=str(self.authority))
        context.load_cert_chain(self.certificate, self.key)
        return context


class Access(NamedTuple):
    """A port of 127.0.0.1 and, for HTTPS, the credentials."""

    port: int
    certificates: Certificates | None = None

    @property
    def url(self) -> str:
        """The server's URL, as for `endpoint` of the kubernetes plugin."""
        return f"{'https' if self.certificates else 'http'}://127.0.0.1:{self.port}"

    @property
    def properties(self) -> tuple[str, ...]:
        """Lines for the body of a kubernetes directive: the same for every server under test."""
        lines = [f"endpoint {self.url}"]
        if self.certificates:
            files = self.certificates
            lines.append(f"tls {files.certificate} {files.key} {files.authority}")
        return tuple(lines)

    def connect(self) -> socket.socket:
        """Open a connection, TLS included; raise OSError."""
        sock = socket.create_connection(("127.0.0.1", self.port), TIMEOUT)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if self.certificates is None:
            return sock
        return self.certificates.context().wrap_socket(sock, server_hostname="127.0.0.1")

    def _connection(self) -> http.client.HTTPConnection:
        if self.certificates is None:
            return http.client.HTTPConnection("127.0.0.1", self.port, timeout=TIMEOUT)
        return http.client.HTTPSConnection(
            "127.0.0.1", self.port, timeout=TIMEOUT, context=self.certificates.context()
        )

    def ask(self, method: str, path: str, body: object = None) -> Any:
        """Send one request and read its JSON; raise OSError, or BenchmarkError for another status than 2xx."""
        return _asked(self._connection(), method, path, body)

    def items(self, path: str, most: int | None = None) -> Iterator[dict[str, Any]]:
        """List at most `most` objects of a collection, in pages; raise as `ask` does."""
        connection, token, given = self._connection(), "", 0
        try:
            while True:
                page = _asked(
                    connection, "GET", f"{path}?limit={PAGE}&continue={quote(token, safe='')}"
                )
                for item in page["items"] or ():
                    yield item
                    given += 1
                    if given == most:
                        return
                token = page["metadata"].get("continue", "")
                if not token:
                    return
        finally:
            connection.close()


def _asked(
    connection: http.client.HTTPConnection, method: str, path: str, body: object = None
) -> Any:
    content = None if body is None else json.dumps(body).encode()
    headers = {"Accept": "application/json"}
    if content is not None:
        headers["Content-Type"] = "application/json"
    try:
        connection.request(method, path, content, headers)
        response = connection.getresponse()
        text = response.read()
    except http.client.HTTPException as error:
        raise BenchmarkError(f"{method} {path}: no sense in the answer: {error!r}") from None
    if response.status // 100 != 2:
        said = text[:200].decode(errors="replace")
        raise BenchmarkError(f"{method} {path}: status {response.status}: {said}")
    return json.loads(text) if text.lstrip()[:1] in (b"{", b"[") else None


SLICES = "/apis/discovery.k8s.io/v1/endpointslices"


class WatchedSlice(NamedTuple):
    """The path and the Service of a slice, and its addresses in the order of its endpoints."""

    namespace: str
    name: str
    service: str
    addresses: tuple[str, ...]

    @classmethod
    def of(cls, manifest: dict[str, Any]) -> WatchedSlice:
        """Read one item of a list."""
        metadata = manifest["metadata"]
        return cls(
            metadata["namespace"],
            metadata["name"],
            metadata["labels"]["kubernetes.io/service-name"],
            tuple(
                address
                for endpoint in manifest["endpoints"] or ()
                for address in endpoint["addresses"]
            ),
        )

    @property
    def path(self) -> str:
        """The path for patching it."""
        group = "/apis/discovery.k8s.io/v1"
        return f"{group}/namespaces/{self.namespace}/endpointslices/{self.name}"

    @property
    def dns_name(self) -> str:
        """The name of its Service."""
        return service_name(self.namespace, self.service)


def slices(access: Access, most: int | None = None) -> Iterator[WatchedSlice]:
    """List the slices of the whole cluster, up to a limit."""
    return (WatchedSlice.of(item) for item in access.items(SLICES, most))
