"""How the benchmark and the servers under test connect to an API server, and the EndpointSlices that it has.

Path: created by real_api.py and fake_api_process.py; used by real_api.py, latency.py (changes a slice) and churn.py
      (compares all of them with the DNS answers).
"""

from __future__ import annotations

import http.client
import json
import ssl
from collections.abc import Collection, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

from loadtest.dns import service_name
from loadtest.process import BenchmarkError

PAGE = 500  # objects in one answer to a list
TIMEOUT = 120.0  # seconds for one answer
# The response to a new object need not hold all of it.
ACCEPT = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1, application/json"


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

    def connection(self) -> http.client.HTTPConnection:
        """A connection, which opens when something is sent on it."""
        if self.certificates is None:
            return http.client.HTTPConnection("127.0.0.1", self.port, timeout=TIMEOUT)
        context = self.certificates.context()
        return http.client.HTTPSConnection("127.0.0.1", self.port, timeout=TIMEOUT, context=context)

    def ask(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        connection: http.client.HTTPConnection | None = None,
        taken: Collection[int] = (),
    ) -> Any:
        """Send one request and read its JSON, perhaps on an open connection.

        Raises OSError, or BenchmarkError for another status than 2xx that is not in `taken`.
        """
        connection = connection or self.connection()
        self.send(connection, method, path, body)
        return self.receive(connection, f"{method} {path}", taken)

    def send(
        self, connection: http.client.HTTPConnection, method: str, path: str, body: object = None
    ) -> None:
        """Send one request; raise OSError, or BenchmarkError."""
        headers = {"Accept": ACCEPT if method == "POST" else "application/json"}
        if body is not None:
            patch = "-patch+json" if method == "PATCH" else ""
            headers["Content-Type"] = f"application/json{patch}"
        content = None if body is None else json.dumps(body).encode()
        try:
            connection.request(method, path, content, headers)
        except http.client.HTTPException as error:
            raise BenchmarkError(f"{method} {path}: cannot be sent: {error!r}") from None

    def receive(
        self, connection: http.client.HTTPConnection, what: str, taken: Collection[int] = ()
    ) -> Any:
        """Read the JSON of a response; raise as `ask` does."""
        try:
            response = connection.getresponse()
            text = response.read()
        except http.client.HTTPException as error:
            raise BenchmarkError(f"{what}: no sense in the answer: {error!r}") from None
        if response.status // 100 != 2 and response.status not in taken:
            said = text[:300].decode(errors="replace")
            raise BenchmarkError(f"{what}: status {response.status}: {said}")
        return json.loads(text) if text.lstrip()[:1] in (b"{", b"[") else None

    def items(self, path: str, most: int | None = None) -> Iterator[dict[str, Any]]:
        """List at most `most` objects of a collection, in pages; raise as `ask` does."""
        connection, token, given = self.connection(), "", 0
        with closing(connection):
            while True:
                pages = f"{path}?limit={PAGE}&continue={quote(token, safe='')}"
                page = self.ask("GET", pages, connection=connection)
                for item in page["items"] or ():
                    yield item
                    given += 1
                    if given == most:
                        return
                token = page["metadata"].get("continue", "")
                if not token:
                    return


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
