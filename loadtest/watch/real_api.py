"""A real kube-apiserver with its etcd, on loopback, in a temporary folder.

Path: plan.py -> here, where KUBEBUILDER_ASSETS names the folder of the two programs (the convention of envtest).
Rule 1: the openssl command creates the certificates; the servers under test and the benchmark share the client
        certificate.
Rule 2: etcd does not sync its files to disk, because its speed is not measured.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

from loadtest.apiserver.objects import Created, endpoint_slice, namespaces, service
from loadtest.bench import Progress
from loadtest.ports import free_port
from loadtest.process import BenchmarkError, Opened, Process
from loadtest.programs import openssl
from loadtest.watch.access import Access, Certificates

START_DEADLINE = 60.0  # seconds; a start takes five on an idle machine
_PAUSE = 0.1
_EC = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
_DAYS = ("-days", "2")
_CONNECTIONS = 32
_BATCH = 2_000  # Services that are created at once
_EXISTS = 409  # the status


def programs(assets: str) -> tuple[Path, Path]:
    """Find etcd and kube-apiserver in a folder; raise BenchmarkError."""
    found = Path(assets, "etcd"), Path(assets, "kube-apiserver")
    for path in found:
        if not path.is_file():
            raise BenchmarkError(f"KUBEBUILDER_ASSETS is {assets}, where {path.name} is missing")
    return found


class RealApi(Opened):
    """The API server; a context manager."""

    def __init__(self, assets: str, endpoints: int) -> None:
        self._etcd_path, self._server_path = programs(assets)
        super().__init__()
        self._endpoints = endpoints
        self._services = 0  # so many are there
        self.access = Access(0)
        self.title = ""

    def cpu(self) -> float:
        """CPU time of kube-apiserver in seconds since its start."""
        return self._server.cpu()

    def check(self) -> None:
        """Raise BenchmarkError if kube-apiserver has ended by itself."""
        self._server.check()

    def kill(self) -> None:
        """Kill kube-apiserver; etcd goes on."""
        self._server.kill()

    def restart(self) -> None:
        """Start kube-apiserver again; return at once."""
        self._server = self._stack.enter_context(
            Process("kube-apiserver", self._words, self._folder)
        )

    def open(self) -> None:
        """Start etcd, then kube-apiserver, and wait until that is ready."""
        folder = Path(self._stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-api-")))
        files = _certificates(folder)
        etcd_url, peer_url = (f"http://127.0.0.1:{free_port()}" for _ in range(2))
        etcd_words = [
            str(self._etcd_path),
            f"--data-dir={folder / 'etcd'}",
            f"--listen-client-urls={etcd_url}",
            f"--advertise-client-urls={etcd_url}",
            f"--listen-peer-urls={peer_url}",
            f"--initial-advertise-peer-urls={peer_url}",
            f"--initial-cluster=default={peer_url}",
            "--unsafe-no-fsync",
            f"--quota-backend-bytes={8 << 30}",
        ]
        self._stack.enter_context(Process("etcd", etcd_words, folder))
        self.access = Access(free_port(), files)
        self._folder = folder
        self._words = [
            str(self._server_path),
            f"--etcd-servers={etcd_url}",
            f"--secure-port={self.access.port}",
            "--bind-address=127.0.0.1",
            "--advertise-address=127.0.0.1",
            "--endpoint-reconciler-type=none",
            f"--tls-cert-file={folder / 'server.crt'}",
            f"--tls-private-key-file={folder / 'server.key'}",
            f"--client-ca-file={files.authority}",
            f"--service-account-key-file={folder / 'server.pub'}",
            f"--service-account-signing-key-file={folder / 'server.key'}",
            "--service-account-issuer=https://kubernetes.default.svc",
            "--service-cluster-ip-range=10.96.0.0/16",
            "--authorization-mode=RBAC",
            "--disable-admission-plugins=ServiceAccount",
            "--max-requests-inflight=2000",
            "--max-mutating-requests-inflight=2000",
        ]
        self.restart()
        self._server.wait_until(self._is_ready, START_DEADLINE, "is not ready", _PAUSE)
        version = self.access.ask("GET", "/version")
        # A build outside its repository has a placeholder behind the plus.
        self.title = f"kube-apiserver {version['gitVersion'].partition('+$')[0]} with etcd"

    def create_up_to(self, services: int, progress: Progress) -> None:
        """Create more Services, each with its slice, until there are so many; raise BenchmarkError.

        Namespaces are created first, then Services and slices, in any order, over many connections.
        """
        first, self._services = self._services, max(self._services, services)
        if first >= services:
            return
        progress.log(
            f"creating Services {first:,} to {services:,} with {self._endpoints} endpoints"
        )
        self._create(list(namespaces(first, services)))
        created = 0
        for begin in range(first, services, _BATCH):
            numbers = range(begin, min(begin + _BATCH, services))
            slices = (endpoint_slice(number, self._endpoints) for number in numbers)
            created += self._create([*map(service, numbers), *slices])
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

    def _is_ready(self) -> bool:
        try:
            self.access.ask("GET", "/readyz")
        except (OSError, BenchmarkError):
            return False
        return True


def _certificates(folder: Path) -> Certificates:
    """Create a CA, the server's certificate and a client certificate in the group system:masters."""
    authority = Certificates(folder / "ca.crt", folder / "client.crt", folder / "client.key")
    openssl(
        *("req", "-x509", *_EC, *_DAYS, "-subj", "/CN=benchmark authority"),
        *("-keyout", str(folder / "ca.key"), "-out", str(authority.authority)),
    )
    for name, subject, extension in (
        ("server", "/CN=kube-apiserver", "subjectAltName=IP:127.0.0.1"),
        ("client", "/O=system:masters/CN=benchmark", "extendedKeyUsage=clientAuth"),
    ):
        request, extensions = folder / f"{name}.csr", folder / f"{name}.ext"
        extensions.write_text(f"{extension}\nauthorityKeyIdentifier=keyid\n")
        openssl(
            *("req", *_EC, "-subj", subject, "-keyout", str(folder / f"{name}.key")),
            *("-out", str(request)),
        )
        openssl(
            *("x509", "-req", *_DAYS, "-in", str(request), "-CA", str(authority.authority)),
            *("-CAkey", str(folder / "ca.key"), "-CAcreateserial"),
            *("-extfile", str(extensions), "-out", str(folder / f"{name}.crt")),
        )
    key, public = str(folder / "server.key"), str(folder / "server.pub")
    openssl("pkey", "-in", key, "-pubout", "-out", public)  # for the tokens of service accounts
    return authority
