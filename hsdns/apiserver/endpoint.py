"""Access by `endpoint URL...` and `tls CERT KEY CACERT` of the Corefile.

Path: sources/api_server.py -> Access.
Rule 1: only the first URL is used; the others cause a warning.
Rule 2: the default scheme is https if `tls` is given, else http; no credentials are sent over http.
Source: CoreDNS 1.14.7 plugin/kubernetes/{setup,kubernetes}.go; client-go rest/url_utils.go.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from hsdns.apiserver.access import Access, server_url


class Endpoint:
    """Access by URL, with or without a client certificate; raises ValueError if it is not a URL."""

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
        """Return the access; tls.py reads the files at each connection."""
        return self._access

    def invalidate(self, access: Access) -> None:
        """Do nothing: the files are read at each connection."""
