"""The API servers of the benchmarks and tests: a real kube-apiserver with its etcd, and the in-test one as a process.

Path: __main__.py, ../pressure, ../verdicts, tests/support -> here -> the programs in KUBEBUILDER_ASSETS (as envtest
      has it), or loadtest/apiserver/__main__.py, whose docstring has the requests to `/_control/`.
Rule 1: a real one makes its certificate itself, and a kubeconfig has the token by which the benchmark and the servers
        under test are let in.
Rule 2: etcd does not sync its files to disk, because its speed is not measured.
Rule 3: the in-test one is for more changes per second than a kube-apiserver can make.
"""

from __future__ import annotations

import http.client
import json
import secrets
import ssl
import sys
import tempfile
import time
from base64 import b64encode
from collections.abc import Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import quote

from loadtest.apiserver.objects import (
    SERVICES_PER_NAMESPACE,
    Change,
    Created,
    endpoint_slice,
    namespaces,
)
from loadtest.apiserver.objects import service as make_service
from loadtest.bench import Progress
from loadtest.dns import service_name
from loadtest.ports import free_port
from loadtest.process import BenchmarkError, Opened, Process
from loadtest.programs import ROOT, configuration

PAGE: Final = 500  # objects in one answer to a list
TIMEOUT: Final = 120.0  # seconds for one answer
START_DEADLINE: Final = 60.0  # seconds; a start takes five on an idle machine
JSON: Final = "application/json"
# The response to a new object need not hold all of it.
ACCEPT: Final = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1, application/json"
SLICES: Final = "/apis/discovery.k8s.io/v1/endpointslices"
PROGRAMS: Final = ("etcd", "kube-apiserver")
_PAUSE = 0.05
_CONNECTIONS = 32
_REAL_BATCH = 2_000  # Services that are created at once
_FAKE_BATCH = 50 * SERVICES_PER_NAMESPACE  # Services in one request to load more
_EXISTS = 409  # the status


class Access:
    """A port of 127.0.0.1 and, for HTTPS, the CA in PEM that verifies it, a token and a kubeconfig with both."""

    def __init__(
        self, port: int, authority: str = "", token: str = "", kubeconfig: Path | None = None
    ) -> None:
        self.port, self.token, self.kubeconfig = port, token, kubeconfig
        self.url = f"http{'s' if authority else ''}://127.0.0.1:{port}"
        self._tls: ssl.SSLContext | None = None
        if authority:
            self._tls = ssl.create_default_context(cadata=authority)
            self._tls.verify_flags &= ~ssl.VERIFY_X509_STRICT

    @property
    def property(self) -> str:
        """The line for the body of a kubernetes directive: the same for every server under test."""
        return f"kubeconfig {self.kubeconfig} bench" if self.kubeconfig else f"endpoint {self.url}"

    def connection(self, timeout: float = TIMEOUT) -> http.client.HTTPConnection:
        """A connection, which opens when something is sent on it."""
        if self._tls is None:
            return http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        return http.client.HTTPSConnection(
            "127.0.0.1", self.port, timeout=timeout, context=self._tls
        )

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
        if connection is None:
            with closing(self.connection()) as own:
                return self.ask(method, path, body, connection=own, taken=taken)
        self.send(connection, method, path, body, accept=ACCEPT if method == "POST" else JSON)
        return self.receive(connection, f"{method} {path}", taken)

    def send(
        self,
        connection: http.client.HTTPConnection,
        method: str,
        path: str,
        body: object = None,
        *,
        accept: str = JSON,
        content_type: str = "",
        token: str = "",
    ) -> None:
        """Send one request, with another token than its own if one is given; raise OSError, or BenchmarkError."""
        headers = {"Accept": accept}
        if token or self.token:
            headers["Authorization"] = f"Bearer {token or self.token}"
        if body is not None:
            usual = "application/json-patch+json" if method == "PATCH" else JSON
            headers["Content-Type"] = content_type or usual
        content = None if body is None else json.dumps(body).encode()
        try:
            connection.request(method, path, content, headers)
        except http.client.HTTPException as error:
            raise BenchmarkError(f"{method} {path}: cannot be sent: {error!r}") from None

    def read(self, connection: http.client.HTTPConnection, what: str) -> tuple[int, Any]:
        """Read a response: its status, and its JSON or text; raise OSError, or BenchmarkError."""
        try:
            response = connection.getresponse()
            text = response.read()
        except http.client.HTTPException as error:
            raise BenchmarkError(f"{what}: no sense in the answer: {error!r}") from None
        is_json = response.headers.get_content_type() == JSON and text
        return response.status, json.loads(text) if is_json else text.decode("utf-8", "replace")

    def receive(
        self, connection: http.client.HTTPConnection, what: str, taken: Collection[int] = ()
    ) -> Any:
        """Read the JSON of a response; raise as `ask` does."""
        status, found = self.read(connection, what)
        if status // 100 != 2 and status not in taken:
            raise BenchmarkError(f"{what}: status {status}: {str(found)[:300]}")
        return found

    def items(self, path: str, most: int | None = None) -> Iterator[dict[str, Any]]:
        """List at most `most` objects of a collection, in pages; raise as `ask` does."""
        token, given = "", 0
        with closing(self.connection()) as connection:
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


class WatchedSlice(NamedTuple):
    """The path and the Service of a slice, and its addresses in the order of its endpoints."""

    namespace: str
    name: str
    service: str
    addresses: tuple[str, ...]

    @classmethod
    def of(cls, manifest: dict[str, Any]) -> WatchedSlice:
        """Read one item of a list."""
        metadata, endpoints = manifest["metadata"], manifest["endpoints"] or ()
        service = metadata["labels"]["kubernetes.io/service-name"]
        addresses = (address for endpoint in endpoints for address in endpoint["addresses"])
        return cls(metadata["namespace"], metadata["name"], service, tuple(addresses))

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


class RealApi(Opened):
    """The real API server, with the programs of a folder; a context manager.

    `flags` are further ones of kube-apiserver; they may change before it starts again.
    """

    def __init__(self, assets: str, networks: str = "10.96.0.0/16") -> None:
        super().__init__()
        self._programs = {name: Path(assets, name) for name in PROGRAMS}
        for path in self._programs.values():
            if not path.is_file():
                raise BenchmarkError(
                    f"KUBEBUILDER_ASSETS is {assets}, where {path.name} is missing"
                )
        self.port, self.flags = free_port(), [f"--service-cluster-ip-range={networks}"]
        self.admin = secrets.token_hex(16)  # the token of who may do everything
        self.services = 0  # so many are there
        self.etcd_port, self._etcd_peer_port = free_port(), free_port()
        self.is_started = False

    @property
    def title(self) -> str:
        """What it is, with its version."""
        version = self.access.ask("GET", "/version")["gitVersion"]
        # A build outside its repository has a placeholder behind the plus.
        return f"kube-apiserver {version.partition('+$')[0]} with etcd"

    @property
    def authority(self) -> bytes:
        """The CA in PEM that verifies the server's self-made certificate."""
        return (self.folder / "certs" / "apiserver.crt").read_bytes()

    def open(self) -> None:
        """Start etcd, then kube-apiserver, and wait until that is ready."""
        folder = tempfile.TemporaryDirectory(prefix="real-api-")
        self.folder = Path(self._stack.enter_context(folder))
        self.write_tokens()
        self.start_etcd()
        self.restart()
        certificate = self.folder / "certs" / "apiserver.crt"
        self.server.wait_until(certificate.is_file, START_DEADLINE, "has no certificate", _PAUSE)
        self.server.wait_until(self._grants_access, START_DEADLINE, "is not ready", _PAUSE)
        self.is_started = True

    def write_tokens(self, *more: str) -> None:
        """Write the accounts that a start of kube-apiserver reads."""
        path = self.folder / "tokens.csv"
        path.touch(mode=0o600)
        path.write_text("\n".join([f'{self.admin},bench,1,"system:masters"', *more]) + "\n")

    def start_etcd(self) -> None:
        """Start etcd on its data."""
        url, peer = (f"http://127.0.0.1:{port}" for port in (self.etcd_port, self._etcd_peer_port))
        words = (
            f"--data-dir={self.folder / 'etcd'}", f"--listen-client-urls={url}", f"--advertise-client-urls={url}",
            f"--listen-peer-urls={peer}", f"--initial-advertise-peer-urls={peer}", f"--initial-cluster=default={peer}",
            "--unsafe-no-fsync", f"--quota-backend-bytes={8 << 30}",
        )  # fmt: skip
        self.etcd = self._start("etcd", *words)

    def restart(self) -> None:
        """Start kube-apiserver, on the same port as before; return at once."""
        certs = self.folder / "certs"
        words = (
            f"--etcd-servers=http://127.0.0.1:{self.etcd_port}", f"--secure-port={self.port}",
            "--bind-address=127.0.0.1",
            "--advertise-address=127.0.0.1", "--endpoint-reconciler-type=none", f"--cert-dir={certs}",
            # It creates this key itself, before it reads the one for signing tokens.
            f"--service-account-key-file={certs / 'apiserver.key'}",
            f"--service-account-signing-key-file={certs / 'apiserver.key'}",
            "--service-account-issuer=https://kubernetes.default.svc", "--authorization-mode=RBAC",
            f"--token-auth-file={self.folder / 'tokens.csv'}", "--disable-admission-plugins=ServiceAccount",
            "--shutdown-delay-duration=0s",
            "--max-requests-inflight=2000", "--max-mutating-requests-inflight=2000",
        )  # fmt: skip
        self.server = self._start("kube-apiserver", *words, *self.flags)

    def kill(self) -> None:
        """Kill kube-apiserver; etcd goes on."""
        self.server.kill()

    def check(self) -> None:
        """Raise BenchmarkError if kube-apiserver has ended by itself."""
        self.server.check()

    def cpu(self) -> float:
        """CPU time of kube-apiserver in seconds since its start."""
        return self.server.cpu()

    def create_up_to(self, services: int, endpoints: int, progress: Progress) -> None:
        """Create more Services, each with its slice, until there are so many; raise BenchmarkError.

        Namespaces are created first, then Services and slices, in any order, over many connections.
        """
        first, self.services = self.services, max(self.services, services)
        if first >= services:
            return
        progress.log(f"creating Services {first:,} to {services:,} with {endpoints} endpoints")
        self._create(list(namespaces(first, services)))
        created = 0
        for begin in range(first, services, _REAL_BATCH):
            numbers = range(begin, min(begin + _REAL_BATCH, services))
            slices = (endpoint_slice(number, endpoints) for number in numbers)
            created += self._create([*map(make_service, numbers), *slices])
            progress.count("objects created", created, 2 * (services - first))
        progress.log(f"{services:,} Services and EndpointSlices exist")

    def _create(self, objects: Sequence[Created]) -> int:
        def send(share: Sequence[Created]) -> None:
            with closing(self.access.connection()) as connection:
                for path, manifest in share:
                    self.access.ask("POST", path, manifest, connection=connection, taken=[_EXISTS])

        shares = [objects[number::_CONNECTIONS] for number in range(_CONNECTIONS)]
        with ThreadPoolExecutor(_CONNECTIONS) as senders:
            list(senders.map(send, filter(None, shares)))
        return len(objects)

    def _start(self, name: str, *words: str) -> Process:
        process = Process(name, (str(self._programs[name]), *words), self.folder)
        return self._stack.enter_context(process)

    def _grants_access(self) -> bool:
        """Whether it is ready; `access` is there then."""
        authority, path = self.authority, self.folder / "kubeconfig"
        self.access = Access(self.port, authority.decode(), self.admin, path)
        encoded = b64encode(authority).decode()
        words = {"url": self.access.url, "authority": encoded, "token": self.admin}
        path.write_text(configuration("kubeconfig.json", **words))
        return self.is_ready()

    def is_ready(self) -> bool:
        """Whether it says that it is ready."""
        try:
            self.access.ask("GET", "/readyz")
        except (OSError, BenchmarkError):
            return False
        return True


class FakeApiProcess(Opened):
    """The in-test API server; a context manager.  With `protobuf`, it gives that to those who accept it."""

    def __init__(self, *, protobuf: bool = False) -> None:
        super().__init__()
        self.title = f"in-test API server ({'JSON and protobuf' if protobuf else 'JSON alone'})"
        self.access = Access(free_port())
        self.services = 0  # so many are there
        self._protobuf = protobuf

    def open(self) -> None:
        """Start it."""
        folder = Path(self._stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-api-")))
        more = ["protobuf"] * self._protobuf
        words = (sys.executable, "-m", "loadtest.apiserver", str(self.access.port), *more)
        self._process = self._stack.enter_context(Process("in-test-api", words, folder, cwd=ROOT))
        is_up = self.is_changing
        self._process.wait_until(lambda: is_up() is False, START_DEADLINE, "is not up")

    def cpu(self) -> float:
        """CPU time in seconds since the start."""
        return self._process.cpu()

    def create_up_to(self, services: int, endpoints: int, progress: Progress) -> None:
        """Ensure that there are at least this many Services, each with its slice."""
        while self.services < services:
            self.create(min(_FAKE_BATCH, services - self.services), endpoints)
            progress.count("Services loaded", self.services, services)

    def create(self, services: int, endpoints: int) -> int:
        """Add Services with so many endpoints each; return the index of the last one."""
        self._ask("POST", "load", {"services": services, "endpoints": endpoints})
        self.services += services
        return self.services - 1

    @property
    def pid(self) -> int:
        """The process ID."""
        return self._process.pid

    def start_changes(
        self, rate: float, seconds: float = 0, among: int = 0
    ) -> dict[str, list[str]]:
        """Start a stream of changes, each to the next Service; 0 seconds means without end.

        `among`: only the first so many Services are changed, and their addresses before are returned.
        """
        asked = {"rate": rate, "seconds": seconds, "among": among}
        return dict(self._ask("POST", "changes", asked)["before"])

    def is_changing(self) -> bool:
        """Whether the stream is running."""
        return bool(self._ask("GET", "changes?from=-1")["running"])

    def changes(self, first: int = 0) -> list[Change]:
        """The changes of the last stream, from that number on; -1 is the latest one."""
        return [Change(*found) for found in self._ask("GET", f"changes?from={first}")["changes"]]

    def first_change(self) -> Change:
        """The first change of the stream; waits for it."""
        return self._wait_for(0)[0]

    def last_change(self) -> Change:
        """The latest change of the stream; waits for the first one."""
        return self._wait_for(-1)[-1]

    def _wait_for(self, first: int) -> list[Change]:
        while not (found := self.changes(first)):
            time.sleep(_PAUSE)
        return found

    def _ask(self, method: str, word: str, body: object = None) -> dict[str, Any]:
        return dict(self.access.ask(method, f"/_control/{word}", body))


Api = FakeApiProcess | RealApi
