"""Whom to ask, and as whom: all that a connection to the API server needs to know.

Path: in_cluster.py, endpoint.py and kubeconfig.py find it out -> Access -> client.py connects by it.
Rule 1: an Access is a value; what changes with time (a token, a certificate of an exec plugin) makes another one.
Rule 2: secrets are in no repr and in no sentence.
Source: client-go rest/config.go (Config), rest/url_utils.go (DefaultServerURL).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol
from urllib.parse import urlsplit

# A file to read at each connection, or the PEM itself.
Pem = str | bytes


@dataclass(frozen=True, slots=True)
class Access:
    """One API server and one identity."""

    server: str  # https://10.96.0.1:443, with a path perhaps, without a slash at the end
    authority: Pem | None = field(default=None, repr=False)  # None: what this host trusts
    certificate: Pem | None = field(default=None, repr=False)
    key: Pem | None = field(default=None, repr=False)
    authorization: str = field(default="", repr=False)  # the header's value: "Bearer ..."
    headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)  # impersonation
    tls_server_name: str = ""
    insecure: bool = False
    proxy: str = field(default="", repr=False)  # may hold a password
    expiry: float | None = None  # seconds since 1970


class AccessSource(Protocol):
    """Where an Access comes from."""

    server: str  # for sentences and labels; a description where the address is not known yet

    def check(self) -> list[str]:
        """Sentences about what is missing, for -validate and the log; contacts nothing and starts nothing."""

    async def current(self) -> Access:
        """The access as it is now, cheap while it is still good; raise Unreachable."""

    def forget(self, access: Access) -> None:
        """Read credentials anew before the next use, if these are still the ones: they were refused."""


def server_url(text: str, *, secure: bool) -> str:
    """Complete the address of an API server as client-go does; raise ValueError.

    Without a scheme it is https where TLS files are given (`secure`), else http.
    """
    has_scheme = "://" in text
    url = text if has_scheme else f"{'https' if secure else 'http'}://{text}"
    wrong = ValueError(
        f'"{text}" is not the address of an API server; write it like https://10.96.0.1:443'
    )
    if "@" in url:  # not shown: what stands before the @ is a password
        raise ValueError(
            "the address of an API server must not hold a user name or a password; "
            "use a kubeconfig for credentials"
        )
    try:
        parts = urlsplit(url)
        has_host = bool(parts.hostname) and parts.port != 0  # .port raises on what is no port
    except ValueError:
        raise wrong from None
    path = parts.path.rstrip("/")
    if parts.scheme not in ("http", "https") or not has_host or parts.query or parts.fragment:
        raise wrong
    if path and not has_scheme:
        raise wrong
    return f"{parts.scheme}://{parts.netloc}{path}"
