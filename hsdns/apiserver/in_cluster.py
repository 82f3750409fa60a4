"""Access from within the cluster: the environment and the service account of this pod.

Path: sources/api_server.py, if the block names neither `endpoint` nor `kubeconfig` -> Access.
Rule 1: kubernetes_asyncio is not imported here; it would double the memory of the process.
Rule 2: missing parts are errors: neither the CAs of this host nor anonymous access are tried instead.
Source: client-go rest/config.go (InClusterConfig); Kubernetes docs, "Accessing the Kubernetes API from a Pod".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from hsdns.apiserver.access import Access, server_url
from hsdns.apiserver.token_file import TokenFile, read_token
from hsdns.apiserver.transport import Unreachable

SERVICE_ACCOUNT: Final = "/var/run/secrets/kubernetes.io/serviceaccount"
HOST: Final = "KUBERNETES_SERVICE_HOST"
PORT: Final = "KUBERNETES_SERVICE_PORT"
_REMEDY: Final = 'give "endpoint URL" or "kubeconfig FILE" in the kubernetes block to reach a cluster from outside'


class InCluster:
    """Access by the service account of this pod; `now` is a monotonic clock in seconds."""

    def __init__(
        self,
        environment: Mapping[str, str],
        now: Callable[[], float],
        warn: Callable[[str], None],
        folder: str = SERVICE_ACCOUNT,
    ) -> None:
        self._fault = ""
        self.server = "the API server of this cluster"
        try:
            self.server = _server(environment)
        except ValueError as error:
            self._fault = str(error)
        self._authority = str(Path(folder, "ca.crt"))
        self._token = TokenFile(str(Path(folder, "token")), now, warn)

    def check(self) -> list[str]:
        """Return a sentence for each missing part."""
        if self._fault:
            return [self._fault]
        found = []
        try:
            read_token(self._token.path)
        except ValueError as error:
            found.append(
                f"{error}; does the pod mount the token of its service account "
                "(automountServiceAccountToken)?"
            )
        if not Path(self._authority).is_file():
            found.append(
                f"the CA file {self._authority} is missing; it comes with the service account"
            )
        return found

    async def current(self) -> Access:
        """Return the access with the current token; raise Unreachable."""
        if self._fault:
            raise Unreachable(self._fault)
        return Access(
            self.server, authority=self._authority, authorization=self._token.authorization()
        )

    def invalidate(self, access: Access) -> None:
        """Reload the token before the next use."""
        self._token.invalidate()


def _server(environment: Mapping[str, str]) -> str:
    """Join host and port; raise ValueError."""
    for name in (HOST, PORT):
        if not environment.get(name):
            raise ValueError(f"not in a cluster: {name} is not set; {_REMEDY}")
    host, port = environment[HOST], environment[PORT]
    if ":" in host and not host.startswith("["):
        host = f"[{host}]"
    try:
        return server_url(f"https://{host}:{port}", secure=True)
    except ValueError as error:
        raise ValueError(f"{HOST} and {PORT} are not a valid address: {error}") from None
