"""The TLS layer of a connection, without a socket: takes the octets that arrive, and returns those to send.

Path: connection.py -> here -> the ssl module, over memory.
Rule 1: no session is resumed: every handshake is full, so each set-up costs as much as that of a new client.
Rule 2: an end without close_notify is accepted: DNS messages have a length prefix.
"""

from __future__ import annotations

import ssl
from contextlib import suppress
from typing import Final

from hsdns.load.errors import LoadError

READ_LEN: Final = 1 << 16
HTTP2: Final = "h2"


NO_TLS: Final = "what answers does not speak TLS"


class TlsFailure(Exception):
    """A TLS error of the server, as a part of a sentence."""


class TlsLayer:
    """The client side; the certificate must be for `name`, and ALPN must select `protocol`, if any."""

    def __init__(self, context: ssl.SSLContext, name: str, protocol: str = "") -> None:
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._ssl = context.wrap_bio(self._incoming, self._outgoing, server_hostname=name)
        self._protocol = protocol
        self.is_shaken = False
        self.is_over = False  # the server has sent close_notify

    def shake(self) -> None:
        """Continue the handshake as far as possible; raise TlsFailure."""
        try:
            self._ssl.do_handshake()
        except ssl.SSLWantReadError:
            return
        except ssl.SSLCertVerificationError as error:
            raise TlsFailure(f"TLS: {error.verify_message.rstrip('.')}") from None
        except ssl.SSLError as error:
            raise TlsFailure(_words(error)) from None
        if self._protocol and self._ssl.selected_alpn_protocol() != self._protocol:
            raise TlsFailure(f"the server does not choose {self._protocol} (ALPN)")
        self.is_shaken = True

    def feed(self, octets: bytes) -> bytes:
        """Decrypt octets that have arrived; raise TlsFailure."""
        self._incoming.write(octets)
        if not self.is_shaken:
            self.shake()
            if not self.is_shaken:
                return b""
        found = []
        try:
            while octets := self._ssl.read(READ_LEN):
                found.append(octets)
            self.is_over = True
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLZeroReturnError:
            self.is_over = True
        except ssl.SSLError as error:
            raise TlsFailure(_words(error)) from None
        return b"".join(found)

    def write(self, octets: bytes | bytearray) -> None:
        """Encrypt octets, once the handshake is complete; raise TlsFailure."""
        try:
            self._ssl.write(octets)
        except ssl.SSLError as error:
            raise TlsFailure(_words(error)) from None

    def take(self) -> bytes:
        """Take the octets to send."""
        return self._outgoing.read() if self._outgoing.pending else b""

    def end(self) -> None:
        """Send close_notify, without waiting for the server's."""
        if self.is_shaken:
            with suppress(ssl.SSLError):
                self._ssl.unwrap()


def client_context(authority: str, *, insecure: bool, protocol: str = "") -> ssl.SSLContext:
    """A context that trusts the certificates in the file `authority`, else those of this machine; raise LoadError."""
    if insecure:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    elif authority:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        try:
            context.load_verify_locations(cafile=authority)
        except FileNotFoundError:
            raise LoadError(f"-tls-ca: there is no file {authority}") from None
        except (OSError, ssl.SSLError) as error:
            reason = error.strerror or str(error)
            raise LoadError(
                f"-tls-ca {authority}: there is no certificate in PEM form to read ({reason})"
            ) from None
    else:
        context = ssl.create_default_context()
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if protocol:
        context.set_alpn_protocols([protocol])
    return context


def _words(error: ssl.SSLError) -> str:
    reason = error.reason or str(error)
    if reason == "WRONG_VERSION_NUMBER":
        return NO_TLS
    return f"TLS: {reason.lower().replace('_', ' ')}"
