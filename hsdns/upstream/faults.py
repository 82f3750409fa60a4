"""What goes wrong with an upstream, and how it is put into words.

Path: connection.py, doh.py and https.py raise; exchange.py makes sentences of it.
"""

from __future__ import annotations

import socket
import ssl


class ConnectionClosed(ConnectionError):
    """The upstream closed the connection, or takes nothing more on it; the message says so."""


class Misbehaviour(OSError):
    """What an upstream did in place of answering; the end of a sentence that begins with its address."""


def describe(error: BaseException) -> str:
    """What went wrong with a socket, as the end of a sentence that begins with the upstream's address."""
    if isinstance(error, ConnectionRefusedError):
        return "refuses connections; does a DNS server listen there?"
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"presents an invalid certificate: {error.verify_message}"
    if isinstance(error, ssl.SSLError):
        return f"failed the TLS handshake: {error.strerror or error}"
    if isinstance(error, socket.gaierror):
        return f"cannot be reached: {error.strerror}"
    if isinstance(error, (ConnectionClosed, Misbehaviour)):
        return str(error)
    if isinstance(error, OSError):
        return f"cannot be reached: {error.strerror or error}"
    return str(error)
