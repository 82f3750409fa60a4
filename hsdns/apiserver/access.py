"""Access to an API server: its address and the credentials to use.

Path: in_cluster.py, endpoint.py and kubeconfig.py make an Access -> client.py connects with it.
Rule 1: an Access is immutable; a renewed token or certificate makes a new one.
Rule 2: secrets appear in no repr and in no message.
Source: client-go rest/config.go (Config), rest/url_utils.go (DefaultServerURL).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol
from urllib.parse import urlsplit

# A path, read at each connection, or the PEM data itself.
Pem = str | bytes


@dataclass(frozen=True, slots=True)
class Access:
    """An API server and the credentials of one identity."""

    server: str  # such as https://10.96.0.1:443, possibly with a path, without a trailing slash
    authority: Pem | None = field(default=None, repr=False)  # None: the CAs of this host
    certificate: Pem | None = field(default=None, repr=False)
    key: Pem | None = field(default=None, repr=False)
    authorization: str = field(default="", repr=False)  # value of the header: "Bearer ..."
    headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)  # impersonation
    tls_server_name: str = ""
    insecure: bool = False
    proxy: str = field(default="", repr=False)  # may contain a password
    expiry: float | None = None  # seconds since 1970


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
