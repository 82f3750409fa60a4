"""TLS contexts for upstreams over TLS (RFC 7858) or HTTPS (RFC 8484).

Path: plugins/forward.py makes a context for each transport of its directive at setup.
Source: CoreDNS 1.14.7 plugin/pkg/tls tls.go.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable, Sequence
from typing import NamedTuple

from hsdns.corefile.tree import Line, Token

HTTP2 = ("h2",)  # RFC 9113 section 3.2


class TlsFiles(NamedTuple):
    """The files named by a `tls` property."""

    authority: Token | None = None
    certificate: Token | None = None
    key: Token | None = None


def read_tls(line: Line) -> TlsFiles:
    """Parse `tls [CA]`, `tls CERT KEY` or `tls CERT KEY CA`; raise CorefileError."""
    args = line.args
    if len(args) > 3:
        raise args[3].error(f'property "tls" takes up to 3 files (CERT KEY CA), found {len(args)}')
    authority = args[-1] if len(args) in (1, 3) else None
    return TlsFiles(authority, *args[:2]) if len(args) >= 2 else TlsFiles(authority)


def make_context(
    files: TlsFiles = TlsFiles(),  # noqa: B008 - immutable
    path: Callable[[str], str] = str,
    alpn: Sequence[str] = (),
) -> ssl.SSLContext:
    """Make a context that trusts the given CA, else those of this host; raise CorefileError.  `path` resolves names."""
    if files.authority is None:
        context = ssl.create_default_context(ssl.Purpose.SERVER_AUTH)
    else:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        with _FileErrors(files.authority):
            context.load_verify_locations(cafile=path(files.authority.text))
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if files.certificate is not None and files.key is not None:
        with _FileErrors(files.certificate):
            context.load_cert_chain(path(files.certificate.text), path(files.key.text))
    if alpn:
        context.set_alpn_protocols(list(alpn))
    return context


class _FileErrors:
    """Context manager that converts errors of a file into CorefileError."""

    def __init__(self, token: Token) -> None:
        self._token = token

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, (OSError, ssl.SSLError)):
            reason = error.strerror or str(error)
            raise self._token.error(f'cannot use "{self._token.text}" for TLS: {reason}') from error
