"""Access to an API server: its address and credentials, in the cluster, by an endpoint, or by a kubeconfig.

Path: InCluster, Endpoint and kubeconfig.py make an Access -> client.py connects with it.
Rule 1: an Access that a source has given never changes; a renewed token or certificate makes a new one.
Rule 2: secrets appear in no repr and in no message.
Source: client-go rest/config.go (Config), rest/url_utils.go (DefaultServerURL).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final, Protocol
from urllib.parse import urlsplit

import msgspec

from hsdns.apiserver.transport import Unreachable


class Pem(msgspec.Struct, frozen=True, omit_defaults=True):
    """A path, which is read at each connection, or PEM data (as Latin-1, to preserve any bytes)."""

    path: str = ""
    pem: str = ""


class Access(msgspec.Struct, omit_defaults=True):
    """An API server and the credentials of one identity."""

    server: str = (
        ""  # such as https://10.96.0.1:443, possibly with a path, without a trailing slash
    )
    authority: Pem | None = None  # None: the CAs of this host
    certificate: Pem | None = None
    key: Pem | None = None
    authorization: str = ""  # value of the header: "Bearer ..."
    headers: tuple[tuple[str, str], ...] = ()  # impersonation
    tls_server_name: str = ""
    insecure: bool = False
    proxy: str = ""  # may contain a password
    expiry: float | None = None  # seconds since 1970

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.server!r})"


class AccessSource(Protocol):
    """Provides the current Access."""

    server: str  # for messages and labels; a description until the address is known

    def check(self) -> list[str]:
        """Return a sentence for each missing part, for -validate and the log; no connection, no process."""

    async def current(self) -> Access:
        """Return the current access, from a cache while it is valid; raise Unreachable."""

    def invalidate(self, access: Access) -> None:
        """Reload the credentials before the next use if the server refused `access` and it is still the current one."""


def server_url(text: str, *, secure: bool) -> str:
    """Complete the address of an API server as client-go does; raise ValueError.

    The default scheme is https if there are TLS files (`secure`), else http.
    """
    has_scheme = "://" in text
    url = text if has_scheme else f"{'https' if secure else 'http'}://{text}"
    wrong = ValueError(
        f'"{text}" is not the address of an API server; write it like https://10.96.0.1:443'
    )
    if "@" in url:  # not quoted in the message, because it may contain a password
        raise ValueError(
            "the address of an API server must not contain a user name or a password; "
            "use a kubeconfig for credentials"
        )
    try:
        parts = urlsplit(url)
        has_host = bool(parts.hostname) and parts.port != 0  # .port raises ValueError if invalid
    except ValueError:
        raise wrong from None
    path = parts.path.rstrip("/")
    if parts.scheme not in ("http", "https") or not has_host or parts.query or parts.fragment:
        raise wrong
    if path and not has_scheme:
        raise wrong
    return f"{parts.scheme}://{parts.netloc}{path}"


# Bearer token in a file that is renewed, such as the token of a service account by the kubelet.
#
# Rule 1: the file is read at most once a minute (monotonic clock), and at once after the server refused the token.
# Rule 2: if the file cannot be read, the previous token stays in use, with one warning.
# Source: client-go transport/token_source.go (cachingTokenSource, fileTokenSource).


REREAD: Final = 60.0  # seconds; tokens of service accounts are renewed at 80 % of an hour


class TokenFile:
    """The token in a file; `now` is a monotonic clock in seconds."""

    def __init__(self, path: str, now: Callable[[], float], warn: Callable[[str], None]) -> None:
        self.path = path
        self._now = now
        self._warn = warn
        self._token = ""
        self._read_at: float | None = None
        self._warned = ""

    def authorization(self) -> str:
        """Return the value of the Authorization header; raise Unreachable if there was never a token."""
        now = self._now()
        if self._read_at is None or now - self._read_at >= REREAD:
            self._read()
            self._read_at = now
        return f"Bearer {self._token}"

    def invalidate(self) -> None:
        """Read the file before the next use."""
        self._read_at = None

    def _read(self) -> None:
        try:
            self._token = read_token(self.path)
        except ValueError as error:
            if not self._token:
                raise Unreachable(str(error)) from None
            if str(error) != self._warned:
                self._warned = str(error)
                self._warn(f"{error}; still using the previous token")
        else:
            self._warned = ""


def read_token(path: str) -> str:
    """Read a token; raise ValueError with a message that does not contain it."""
    try:
        token = Path(path).read_text("utf-8").strip()
    except OSError as error:
        raise ValueError(f"cannot read the token file {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        token = "\0"
    if not token:
        raise ValueError(f"the token file {path} is empty")
    if not all("!" <= character <= "~" for character in token):
        raise ValueError(
            f"the token file {path} does not contain a token: it must be a single ASCII word"
        )
    return token


# Access from within the cluster: the environment and the service account of this pod.
#
# Rule 1: kubernetes_asyncio is not imported here; it would double the memory of the process.
# Rule 2: missing parts are errors: neither the CAs of this host nor anonymous access are tried instead.
# Source: client-go rest/config.go (InClusterConfig); Kubernetes docs, "Accessing the Kubernetes API from a Pod".


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
        return Access(self.server, Pem(self._authority), authorization=self._token.authorization())

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


# Access by `endpoint URL...` and `tls CERT KEY CACERT` of the Corefile.
#
# Rule 1: only the first URL is used; the others cause a warning.
# Rule 2: the default scheme is https if `tls` is given, else http; no credentials are sent over http.
# Source: CoreDNS 1.14.7 plugin/kubernetes/{setup,kubernetes}.go; client-go rest/url_utils.go.


class Endpoint:
    """Access by URL, with or without a client certificate; raises ValueError if it is not a URL."""

    def __init__(
        self, urls: Sequence[str], certificate: str = "", key: str = "", authority: str = ""
    ) -> None:
        secure = bool(certificate or key or authority)
        self.server = server_url(urls[0], secure=secure)
        self._unused = list(urls[1:])
        self._files = [path for path in (certificate, key, authority) if path]
        own, signed, secret = (
            Pem(each) if each else None for each in (authority, certificate, key)
        )
        self._access = Access(self.server, own, signed, secret)

    def check(self) -> list[str]:
        """Return a sentence for each missing file and each property without effect."""
        found = [
            f'only the first endpoint, "{self.server}", is used; "{url}" has no effect'
            for url in self._unused
        ]
        if self.server.startswith("http://") and self._files:
            found.append(f'"tls" has no effect on {self.server}; write https://')
            return found
        for path in self._files:
            try:
                Path(path).read_bytes()
            except OSError as error:
                found.append(f"cannot read {path} for TLS: {error.strerror}")
        return found

    async def current(self) -> Access:
        """Return the access; client.py reads the files at each connection."""
        return self._access

    def invalidate(self, access: Access) -> None:
        """Do nothing: the files are read at each connection."""
