"""The TLS side of DNS over TLS upstreams (RFC 7858).

Path: plugins/forward.py makes one context for each of its directives at setup.
Source: CoreDNS 1.14.7 plugin/pkg/tls tls.go.
"""

from __future__ import annotations

import ssl
from collections.abc import Sequence

from hsdns.corefile.tree import CorefileError, Line, Token


def read_tls(line: Line) -> ssl.SSLContext:
    """Read `tls [CA]`, `tls CERT KEY` or `tls CERT KEY CA`; raise CorefileError."""
    args = line.args
    if len(args) > 3:
        raise CorefileError(
            args[3].position, f'property "tls" takes up to 3 files (CERT KEY CA), found {len(args)}'
        )
    authority = args[-1] if len(args) in (1, 3) else None
    context = make_context()
    if authority is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        with _Named(authority):
            context.load_verify_locations(cafile=authority.text)
    if len(args) >= 2:
        with _Named(args[0]):
            context.load_cert_chain(args[0].text, args[1].text)
    return context


def make_context() -> ssl.SSLContext:
    """Trust the authorities that this host trusts."""
    context = ssl.create_default_context(ssl.Purpose.SERVER_AUTH)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context


class _Named:
    """Turn what goes wrong with a file into a sentence that names it."""

    def __init__(self, token: Token) -> None:
        self._token = token

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, (OSError, ssl.SSLError, Sequence)):
            reason = error.strerror or str(error)
            raise CorefileError(
                self._token.position, f'cannot use "{self._token.text}" for TLS: {reason}'
            ) from error
