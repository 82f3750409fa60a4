"""The API server at a URL from the Corefile: `endpoint URL...` and `tls CERT KEY CACERT`.

Path: sources/api_server.py -> Access.
Rule 1: only the first URL is used; the others cause a warning.
Rule 2: without a scheme it is https where `tls` is given, else http; http needs no credentials and sends none.
Source: CoreDNS 1.14.7 plugin/kubernetes/{setup,kubernetes}.go; client-go rest/url_utils.go.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from hsdns.apiserver.access import Access, server_url


class Endpoint:
    """Access by URL, with a client certificate or without; raise ValueError on what is no address."""

    def __init__(
        self, urls: Sequence[str], certificate: str = "", key: str = "", authority: str = ""
    ) -> None:
        secure = bool(certificate or key or authority)
        self.server = server_url(urls[0], secure=secure)
        self._unused = list(urls[1:])
        self._files = [path for path in (certificate, key, authority) if path]
        self._access = Access(
            self.server,
            authority=authority or None,
            certificate=certificate or None,
            key=key or None,
        )

    def check(self) -> list[str]:
        """Sentences about what is missing or has no effect."""
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
        """The access; files are read by tls.py at each connection."""
        return self._access

    def forget(self, access: Access) -> None:
        """Do nothing: the files are read anew in any case."""
