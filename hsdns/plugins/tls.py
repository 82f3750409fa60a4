"""Configures the certificate for DNS over TLS and DNS over HTTPS.

Path: beside the queries: server/transport/sockets.py takes the SSL context from the blocks,
server/transport/connection.py uses it.
Source: CoreDNS 1.14.7 plugin/tls and plugin/pkg/tls.
Rule 1: the files are read at setup, so each reload reads them again, and an invalid file is an error at its position in
        the Corefile.  Open connections keep their certificate.
Rule 2: the minimum version is TLS 1.2.
"""

from __future__ import annotations

import logging
import os
import ssl
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Final, NamedTuple, Self

from hsdns.corefile.properties import Property, one, read_properties, text
from hsdns.corefile.tree import Directive, NotInHsdns, Position, Token
from hsdns.plugin import Block, Plugin, Runtime

CLIENT_AUTH: Final = {
    "nocert": ssl.CERT_NONE,
    "verify_if_given": ssl.CERT_OPTIONAL,
    "require_and_verify": ssl.CERT_REQUIRED,
}
# Python's ssl module cannot request a client certificate without verifying it; an unverified one would prove nothing.
UNVERIFIED: Final = ("request", "require")
ACME: Final = ("acme", "email", "ca", "storage", "ca_root", "resolver")
_log = logging.getLogger("hsdns.plugin.tls")


class Files(NamedTuple):
    """The input of an SSL context; all blocks of an address must have the same."""

    cert: str
    key: str
    ca: str = ""
    client_auth: ssl.VerifyMode = ssl.CERT_NONE
    keylog: str = ""


def _client_auth(token: Token) -> ssl.VerifyMode:
    if token.text in UNVERIFIED:
        raise token.error(
            f'"{token.text}" requests certificates without verifying them, which hsdns cannot do; '
            'use "verify_if_given" or "require_and_verify"'
        )
    return CLIENT_AUTH[token.one_of(CLIENT_AUTH)]


class Tls(Plugin):
    """Holds one certificate."""

    PROPERTIES: ClassVar[dict[str, Property[Any]]] = {
        "client_auth": Property(
            one(_client_auth), default=ssl.CERT_NONE, syntax="|".join(CLIENT_AUTH)
        ),
        "keylog": Property(one(text), default="", syntax="FILE"),
    }

    def __init__(self, files: Files, position: Position) -> None:
        self.files = files
        self.position = position
        self.context = make_context(files, position)

    @classmethod
    def setup(cls, directives: Sequence[Directive], block: Block) -> Self:
        """Read `tls CERT KEY [CA]`; of several in a block the last takes effect."""
        for directive in directives:
            _refuse_acme(directive)
            if not 2 <= len(directive.args) <= 3:
                raise directive.error(
                    f'"tls" takes 2 or 3 files, CERT KEY [CA], found {len(directive.args)}'
                )
        directive = directives[-1]
        options = read_properties([directive], cls.PROPERTIES)
        cert, key, *ca = [block.path(token.text) for token in directive.args]
        keylog = block.path(options["keylog"]) if options["keylog"] else ""
        files = Files(cert, key, "".join(ca), options["client_auth"], keylog)
        return cls(files, directive.args[0].position)

    def agree_with(self, other: Self) -> None:
        """Raise CorefileError where another block of the same address has other files."""
        if self.files != other.files:
            raise self.position.error(
                f"another block of this address has other TLS files, at {other.position}; "
                "an address has one certificate; use the same files or another port"
            )

    async def start(self, runtime: Runtime) -> None:
        """Open the key log, if configured."""
        path = self.files.keylog
        if not path:
            return
        try:
            # The keys decrypt the connections, so only the owner may read the file.
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600))
            self.context.keylog_filename = path
        except OSError as error:
            raise self.position.error(
                f'cannot write TLS keys to "{path}": {error.strerror}'
            ) from error
        _log.warning('plugin/tls: Writing TLS Key Log to "%s"', path)


def _refuse_acme(directive: Directive) -> None:
    for line in directive.lines:
        if line.name.text in ACME and not directive.args:
            raise NotInHsdns(
                line.name.position,
                f'"{line.name.text}": hsdns does not obtain certificates by ACME; '
                'use cert-manager or another tool to write them to files, and "tls CERT KEY"',
            )


def make_context(files: Files, position: Position) -> ssl.SSLContext:
    """The context of a server; raise CorefileError with the position."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_RENEGOTIATION
    _load(
        position, files.cert, lambda: context.load_cert_chain(files.cert, files.key, _no_password)
    )
    if files.ca:
        _load(position, files.ca, lambda: context.load_verify_locations(cafile=files.ca))
    elif files.client_auth != ssl.CERT_NONE:
        context.load_default_certs(ssl.Purpose.CLIENT_AUTH)
    context.verify_mode = files.client_auth
    return context


def _no_password() -> str:
    """Replace OpenSSL's password prompt, which would block the start."""
    raise ValueError("the key is encrypted; decrypt it first")


def _load(position: Position, path: str, load: Callable[[], None]) -> None:
    """Load a file; raise CorefileError with its path and the reason."""
    try:
        load()
    except (OSError, ValueError) as error:
        reason = (error.strerror if isinstance(error, OSError) else "") or str(error)
        raise position.error(f'cannot use "{path}" for TLS: {reason}') from error
