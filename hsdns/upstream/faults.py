"""Errors of upstreams and their messages.

Path: connection.py, doh.py and https.py raise them; exchange.py makes the messages.
"""

from __future__ import annotations

import socket
import ssl


class ConnectionClosed(ConnectionError):
    """The upstream closed the connection, or accepts no more queries on it; the message says which."""


class ProtocolViolation(OSError):
    """The upstream did not follow the protocol; the message continues a sentence that begins with its address."""


class Displaced(OSError):
    """Newer queries to the upstream took the place of this one; the message continues as above."""


def describe(error: BaseException) -> str:
    """Return the end of an error message that begins with the upstream's address."""
    if isinstance(error, ConnectionRefusedError):
        return "refuses connections; does a DNS server listen there?"
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"presents an invalid certificate: {error.verify_message}"
    if isinstance(error, ssl.SSLError):
        return f"failed the TLS handshake: {error.strerror or error}"
    if isinstance(error, socket.gaierror):
        return f"cannot be reached: {error.strerror}"
    if isinstance(error, (ConnectionClosed, ProtocolViolation, Displaced)):
        return str(error)
    if isinstance(error, OSError):
        return f"cannot be reached: {error.strerror or error}"
    return str(error)
