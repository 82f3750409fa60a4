"""TLS around a connection, without a socket: what arrives is put in, what is to be sent is taken out.

Path: connection.py -> here -> the ssl module, over memory.
Rule 1: handshakes are full ones: no session is resumed, so each set-up costs what a new client's does.
Rule 2: an end without close_notify is an end: DNS messages have their length in front.
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
    """What is wrong with the server's TLS, as a part of a sentence."""


class TlsLayer:
    """The client's side; `name` is what the certificate must be for; `protocol` what ALPN must choose, if any."""

    def __init__(self, context: ssl.SSLContext, name: str, protocol: str = "") -> None:
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._ssl = context.wrap_bio(self._incoming, self._outgoing, server_hostname=name)
        self._protocol = protocol
        self.is_shaken = False
        self.is_over = False  # the server has said close_notify

    def shake(self) -> None:
        """Go on with the handshake, as far as possible; raise TlsFailure."""
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
        """Put in what has arrived; return what it says; raise TlsFailure."""
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
        """Encrypt what is to be said, once the handshake is over; raise TlsFailure."""
        try:
            self._ssl.write(octets)
        except ssl.SSLError as error:
            raise TlsFailure(_words(error)) from None

    def take(self) -> bytes:
        """Take what is to be sent."""
        return self._outgoing.read() if self._outgoing.pending else b""

    def end(self) -> None:
        """Say close_notify; the server's is not waited for."""
        if self.is_shaken:
            with suppress(ssl.SSLError):
                self._ssl.unwrap()


def client_context(authority: str, *, insecure: bool, protocol: str = "") -> ssl.SSLContext:
    """What a client trusts: the certificates of the file `authority`, else those of this machine; raise LoadError."""
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
