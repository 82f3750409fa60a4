"""A real kube-apiserver with its etcd on loopback, which tests start, kill and compact, and whose rights they change.

Path: a test -> RealApi -> the programs in the folder that KUBEBUILDER_ASSETS names (the convention of envtest).
Rule 1: nothing outlives the context; both processes are ended by the handles that started them.
Rule 2: the account under test (USER) may list and watch what grant() says; the tests' own account may do everything.
Rule 3: what is waited for is asked for again and again, with a bounded deadline; every method may block, so a test
        with a loop calls it in a thread.
"""

from __future__ import annotations

import http.client
import json
import os
import secrets
import ssl
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from loadtest.apiserver.watch_cache import KINDS, Kind, Manifest
from loadtest.ports import free_port

ASSETS: Final = "KUBEBUILDER_ASSETS"
PROGRAMS: Final = ("etcd", "kube-apiserver")
USER: Final = "contract"
DEADLINE: Final = 50.0  # seconds; a start takes five on an idle machine
_PAUSE: Final = 0.05
_ROLES: Final = "/apis/rbac.authorization.k8s.io/v1"
_ANY_KEY: Final = {
    "key": "AA=="
}  # one that does not exist; only the header of the response is used
_READABLE: Final = tuple(kind for kind in KINDS if kind.name != "ServiceImport")


class RealApiError(RuntimeError):
    """A request failed or a state was not reached; the message ends with the output."""


def missing_assets() -> str:
    """Return why there is no real API server for tests; "" if there is one."""
    folder = os.environ.get(ASSETS)
    if not folder:
        return f"{ASSETS} names no folder with etcd and kube-apiserver"
    lacking = [name for name in PROGRAMS if not Path(folder, name).is_file()]
    return f"{ASSETS} is {folder}, where {' and '.join(lacking)} is missing" if lacking else ""


class RealApi:
    """The API server; a context manager."""

    def __init__(self, service_networks: str = "10.96.0.0/16") -> None:
        self.port = free_port()
        self._service_networks = service_networks
        self.token = secrets.token_hex(16)  # of USER
        self.admin = secrets.token_hex(16)  # of the tests' own account
        self._temporary = tempfile.TemporaryDirectory(prefix="real-api-")
        self._folder = Path(self._temporary.name)
        self._etcd_port, self._etcd_peer_port = free_port(), free_port()
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self.streams = True
        self._tls: ssl.SSLContext | None = None

    def __enter__(self) -> RealApi:
        try:
            self._write_tokens()
            self._start_etcd()
            self._start_server()
            self._allow_user()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        for name in list(self._processes):
            self._kill(name)
        self._temporary.cleanup()

    @property
    def authority(self) -> bytes:
        """The CA in PEM that verifies the server's self-made certificate."""
        return (self._folder / "certs" / "apiserver.crt").read_bytes()

    # Objects.

    def apply(self, manifest: Mapping[str, Any]) -> Manifest:
        """Add the object, or replace the one of its kind, namespace and name."""
        kind, metadata = _kind_of(manifest), manifest["metadata"]
        body = {"apiVersion": kind.api_version, **manifest}
        collection = _path(kind, metadata.get("namespace"))
        path = f"{collection}/{metadata['name']}"
        status, found = self.ask("GET", path)
        if status == 404:
            return self._must("POST", collection, body)
        # An address that the server has assigned stays if the manifest names none.
        spec = dict(body.get("spec") or {})
        for field in ("clusterIP", "clusterIPs"):
            if kind.name == "Service" and field in (found.get("spec") or {}):
                spec.setdefault(field, found["spec"][field])
        if spec:
            body["spec"] = spec
        body["metadata"] = {**metadata, "resourceVersion": found["metadata"]["resourceVersion"]}
        return self._must("PUT", path, body)

    def patch(self, manifest: Mapping[str, Any], change: Mapping[str, Any]) -> Manifest:
        """Merge a change into the object of this kind, namespace and name."""
        return self._must("PATCH", _object_path(manifest), change)

    def delete(self, manifest: Mapping[str, Any]) -> None:
        """Delete the object of this kind, namespace and name, a Namespace to the end."""
        path = _object_path(manifest)
        self._must("DELETE", path)
        if manifest["kind"] == "Namespace":  # no controller finalizes it here
            found = self._must("GET", path)
            found["spec"]["finalizers"] = []
            self._must("PUT", f"{path}/finalize", found)

    def items(self, kind: str) -> list[Manifest]:
        """All objects of a kind as they are now."""
        found: list[Manifest] = self._must("GET", _path(_kind_of({"kind": kind}), None))["items"]
        return found

    # Faults.

    def restart(self) -> None:
        """Kill the API server (SIGKILL) and restart it on the same port."""
        self._kill("kube-apiserver")
        self._start_server()

    def restart_etcd(self) -> None:
        """Kill etcd (SIGKILL) and restart it on its data; the API server keeps running."""
        self._kill("etcd")
        self._start_etcd()
        self._wait("the API server reaches etcd again", self._is_ready)
        self._wait("the API server reads from etcd again", lambda: bool(self.items("Namespace")))

    def compact(self) -> None:
        """Compact the history of etcd, and clear that of the API server by a restart."""
        revision = self._etcd("/v3/kv/range", _ANY_KEY)["header"]["revision"]
        self._etcd("/v3/kv/compaction", {"revision": revision, "physical": True})
        self.restart()

    def refuse_streams(self, refused: bool) -> None:
        """Disable streaming lists, or enable them again, by a restart."""
        self.streams = not refused
        self.restart()

    def rotate_token(self) -> None:
        """Give USER a new token; the old one is refused, after a restart."""
        self.token = secrets.token_hex(16)
        self._write_tokens()
        self.restart()

    def grant(self, plurals: Sequence[str], namespaces: Sequence[str] = ()) -> None:
        """Allow USER to list and watch only these resources: everywhere, or in these namespaces."""
        everywhere = _rules(plurals if not namespaces else ())
        self._put_role(f"{_ROLES}/clusterroles", "ClusterRole", {"name": USER}, everywhere)
        for namespace in namespaces:
            metadata = {"name": USER, "namespace": namespace}
            self._put_role(
                f"{_ROLES}/namespaces/{namespace}/roles", "Role", metadata, _rules(plurals)
            )
            self._put_binding(f"{_ROLES}/namespaces/{namespace}/rolebindings", "Role", metadata)
        self._wait("the rights have changed", lambda: self._may_read(plurals, namespaces))

    # Requests.

    def ask(
        self, method: str, path: str, body: Any = None, token: str = "", *, applies: bool = False
    ) -> tuple[int, Any]:
        """Send one request, as the tests' own account unless a token is given; a patch merges, or `applies`."""
        kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
        kind = "application/apply-patch+yaml" if applies else kind
        connection = http.client.HTTPSConnection(
            "127.0.0.1", self.port, timeout=10, context=self._context()
        )
        try:
            connection.request(
                method,
                path,
                None if body is None else json.dumps(body),
                {"Authorization": f"Bearer {token or self.admin}", "Content-Type": kind},
            )
            response = connection.getresponse()
            text = response.read()
        finally:
            connection.close()
        if response.headers.get_content_type() == "application/json":
            return response.status, json.loads(text)
        return response.status, text.decode("utf-8", "replace")

    def _must(self, method: str, path: str, body: Any = None) -> Manifest:
        status, found = self.ask(method, path, body)
        if status >= 400 or not isinstance(found, dict):
            raise RealApiError(f"{method} {path} is answered with {status}: {found}")
        return found

    def _etcd(self, path: str, body: Mapping[str, Any]) -> Any:
        connection = http.client.HTTPConnection("127.0.0.1", self._etcd_port, timeout=10)
        try:
            connection.request("POST", path, json.dumps(body))
            response = connection.getresponse()
            found = json.loads(response.read())
        finally:
            connection.close()
        if response.status != 200:
            raise RealApiError(f"etcd answers {path} with {response.status}: {found}")
        return found

    def _context(self) -> ssl.SSLContext:
        if self._tls is None:
            self._tls = ssl.create_default_context(cadata=self.authority.decode())
            self._tls.verify_flags &= ~ssl.VERIFY_X509_STRICT
        return self._tls

    # The processes.

    def _start_etcd(self) -> None:
        client, peer = (
            f"http://127.0.0.1:{port}" for port in (self._etcd_port, self._etcd_peer_port)
        )
        self._start(
            "etcd",
            f"--data-dir={self._folder / 'etcd'}",
            f"--listen-client-urls={client}",
            f"--advertise-client-urls={client}",
            f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster=default={peer}",
            "--unsafe-no-fsync",
        )
        self._wait("etcd answers", lambda: bool(self._etcd("/v3/kv/range", _ANY_KEY)))

    def _start_server(self) -> None:
        certs = self._folder / "certs"
        self._start(
            "kube-apiserver",
            f"--etcd-servers=http://127.0.0.1:{self._etcd_port}",
            f"--secure-port={self.port}",
            "--bind-address=127.0.0.1",
            "--advertise-address=127.0.0.1",
            "--endpoint-reconciler-type=none",
            f"--cert-dir={certs}",
            # It creates this key itself, before it reads the one for signing tokens.
            f"--service-account-key-file={certs / 'apiserver.key'}",
            f"--service-account-signing-key-file={certs / 'apiserver.key'}",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-cluster-ip-range={self._service_networks}",
            "--authorization-mode=RBAC",
            f"--token-auth-file={self._folder / 'tokens.csv'}",
            "--disable-admission-plugins=ServiceAccount",
            "--shutdown-delay-duration=0s",
            *([] if self.streams else ["--feature-gates=WatchList=false"]),
        )
        self._wait("the API server is ready", self._is_ready)

    def _start(self, name: str, *words: str) -> None:
        program = Path(os.environ[ASSETS], name)
        with (self._folder / f"{name}.log").open("ab") as log:
            self._processes[name] = subprocess.Popen([program, *words], stdout=log, stderr=log)

    def _kill(self, name: str) -> None:
        process = self._processes.pop(name)
        process.kill()
        process.wait()

    def _is_ready(self) -> bool:
        return self.ask("GET", "/readyz")[0] == 200

    def _wait(self, what: str, is_so: Callable[[], bool]) -> None:
        """Poll until the condition holds; raise RealApiError."""
        deadline = time.monotonic() + DEADLINE
        while True:
            error = ""
            try:
                if is_so():
                    return
            except (OSError, http.client.HTTPException, RealApiError) as found:
                error = f" ({found})"
            dead = [name for name, each in self._processes.items() if each.poll() is not None]
            if dead or time.monotonic() > deadline:
                printed = [
                    (self._folder / f"{name}.log").read_text(errors="replace")[-2000:]
                    for name in dead or PROGRAMS
                ]
                raise RealApiError(
                    "\n".join([f"not within {DEADLINE:g} s: {what}{error}", *printed])
                )
            time.sleep(_PAUSE)

    # Accounts and rights.

    def _write_tokens(self) -> None:
        lines = [f'{self.admin},tests,1,"system:masters"', f"{self.token},{USER},2"]
        path = self._folder / "tokens.csv"
        path.touch(mode=0o600)
        path.write_text("\n".join(lines) + "\n")

    def _allow_user(self) -> None:
        self._put_binding(f"{_ROLES}/clusterrolebindings", "ClusterRole", {"name": USER})
        self.grant([kind.plural for kind in _READABLE])

    def _put_role(
        self, path: str, kind: str, metadata: Mapping[str, str], rules: Sequence[Manifest]
    ) -> None:
        role = {"kind": kind, "metadata": metadata, "rules": rules}
        status, _ = self.ask("PUT", f"{path}/{USER}", role)
        if status == 404:
            self._must("POST", path, role)

    def _put_binding(self, path: str, kind: str, metadata: Mapping[str, str]) -> None:
        binding = {
            "kind": f"{kind}Binding",
            "metadata": metadata,
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": USER},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": USER}],
        }
        status, _ = self.ask("PUT", f"{path}/{USER}", binding)
        if status == 404:
            self._must("POST", path, binding)

    def _may_read(self, plurals: Sequence[str], namespaces: Sequence[str]) -> bool:
        """Whether the rights have changed, also in the authorizer's cache."""
        for kind in _READABLE:
            wanted = kind.plural in plurals
            for namespace in namespaces if kind.namespaced else ():
                if self._is_allowed(kind, namespace) is not wanted:
                    return False
            if self._is_allowed(kind, None) is not (wanted and not namespaces):
                return False
        return True

    def _is_allowed(self, kind: Kind, namespace: str | None) -> bool:
        status, _ = self.ask("GET", f"{_path(kind, namespace)}?limit=1", token=self.token)
        return status == 200


def _rules(plurals: Sequence[str]) -> list[Manifest]:
    return [
        {"apiGroups": [kind.group], "resources": [kind.plural], "verbs": ["list", "watch"]}
        for kind in _READABLE
        if kind.plural in plurals
    ]


def _kind_of(manifest: Mapping[str, Any]) -> Kind:
    return next(kind for kind in KINDS if kind.name == manifest["kind"])


def _path(kind: Kind, namespace: str | None) -> str:
    if namespace is None or not kind.namespaced:
        return f"{kind.prefix}/{kind.plural}"
    return f"{kind.prefix}/namespaces/{namespace}/{kind.plural}"


def _object_path(manifest: Mapping[str, Any]) -> str:
    metadata = manifest["metadata"]
    return f"{_path(_kind_of(manifest), metadata.get('namespace'))}/{metadata['name']}"
