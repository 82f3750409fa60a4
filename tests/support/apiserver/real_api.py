"""A real kube-apiserver with its etcd on loopback, which tests start, kill and compact, and whose rights they change.

Path: a test -> RealApi -> loadtest/watch/api_servers.py, where KUBEBUILDER_ASSETS names the folder of the programs.
Rule 1: nothing outlives the context; both processes are ended by the handles that started them.
Rule 2: the account under test (USER) may list and watch what grant() says; the tests' own account may do everything.
Rule 3: what is waited for is asked for again and again, with a bounded deadline; every method may block, so a test
        with a loop calls it in a thread.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, Final

from loadtest.apiserver.watch_cache import KINDS, Kind, Manifest
from loadtest.process import BenchmarkError
from loadtest.watch import api_servers
from loadtest.watch.api_servers import PROGRAMS, Access

ASSETS: Final = "KUBEBUILDER_ASSETS"
USER: Final = "contract"
DEADLINE: Final = 50.0  # seconds; a start takes five on an idle machine
_PAUSE: Final = 0.05
_ROLES: Final = "/apis/rbac.authorization.k8s.io/v1"
# One that does not exist; only the header of the response is used.
_ANY_KEY: Final = {"key": "AA=="}
_READABLE: Final = tuple(kind for kind in KINDS if kind.name != "ServiceImport")


def missing_assets() -> str:
    """Return why there is no real API server for tests; "" if there is one."""
    folder = os.environ.get(ASSETS)
    if not folder:
        return f"{ASSETS} names no folder with etcd and kube-apiserver"
    lacking = [name for name in PROGRAMS if not Path(folder, name).is_file()]
    return f"{ASSETS} is {folder}, where {' and '.join(lacking)} is missing" if lacking else ""


class RealApi(api_servers.RealApi):
    """The API server with objects, rights and faults; a context manager."""

    def __init__(self, service_networks: str = "10.96.0.0/16") -> None:
        super().__init__(os.environ[ASSETS], service_networks)
        self.token = secrets.token_hex(16)  # of USER
        self.streams = True

    def open(self) -> None:
        """Start it, and let USER read."""
        super().open()
        self._put_binding(f"{_ROLES}/clusterrolebindings", "ClusterRole", {"name": USER})
        self.grant([kind.plural for kind in _READABLE])

    def write_tokens(self, *more: str) -> None:
        """Write the tokens of both accounts."""
        super().write_tokens(f"{self.token},{USER},2", *more)

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
        """Start the API server, a running one is killed (SIGKILL), on the same port; wait until it is ready."""
        if self.is_started:
            self.kill()
        super().restart()
        if self.is_started:
            self.server.wait_until(self.is_ready, DEADLINE, "is not ready")

    def restart_etcd(self) -> None:
        """Kill etcd (SIGKILL) and restart it on its data; the API server keeps running."""
        self.etcd.kill()
        self.start_etcd()
        self.server.wait_until(self.is_ready, DEADLINE, "does not reach etcd again")
        self._wait("the API server reads from etcd again", lambda: bool(self.items("Namespace")))

    def compact(self) -> None:
        """Compact the history of etcd, and clear that of the API server by a restart."""
        revision = self._etcd("/v3/kv/range", _ANY_KEY)["header"]["revision"]
        self._etcd("/v3/kv/compaction", {"revision": revision, "physical": True})
        self.restart()

    def refuse_streams(self, refused: bool) -> None:
        """Disable streaming lists, or enable them again, by a restart."""
        self.streams = not refused
        flag = "--feature-gates=WatchList=false"
        self.flags = [each for each in self.flags if each != flag] + [flag] * refused
        self.restart()

    def rotate_token(self) -> None:
        """Give USER a new token; the old one is refused, after a restart."""
        self.token = secrets.token_hex(16)
        self.write_tokens()
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
        kind = "application/merge-patch+json" if method == "PATCH" else ""
        kind = "application/apply-patch+yaml" if applies else kind
        with closing(self.access.connection(10)) as connection:
            self.access.send(connection, method, path, body, content_type=kind, token=token)
            return self.access.read(connection, f"{method} {path}")

    def _must(self, method: str, path: str, body: Any = None) -> Manifest:
        status, found = self.ask(method, path, body)
        if status >= 400 or not isinstance(found, dict):
            raise BenchmarkError(f"{method} {path} is answered with {status}: {found}")
        return found

    def _etcd(self, path: str, body: Mapping[str, Any]) -> Any:
        return Access(self.etcd_port).ask("POST", path, body)

    def _wait(self, what: str, is_so: Callable[[], bool]) -> None:
        """Poll until the condition holds; raise BenchmarkError."""

        def holds() -> bool:
            try:
                return is_so()
            except BenchmarkError:
                return False

        self.server.wait_until(holds, DEADLINE, f"is not there yet ({what})")

    # Accounts and rights.

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
