"""Error messages for connections to the API server.

Path: client.py catches -> here -> Unreachable -> the operator's log.
Rule: a message names the server, the cause and, if known, the remedy; it contains no header and no password.
"""

from __future__ import annotations

import errno
import socket
import ssl
from typing import Final
from urllib.parse import urlsplit

from hsdns.apiserver.access import Access
from hsdns.apiserver.connections import CONNECT_TIMEOUT
from hsdns.apiserver.http_connection import (
    ConnectTimeout,
    Incomplete,
    Lost,
    NoResponse,
    NotHttp,
    ProxyRefused,
    ProxyUnreachable,
)

# X509_V_ERR_* of OpenSSL for which the remedy is known.
_NOT_YET_VALID: Final = 9
_EXPIRED: Final = 10
_AWAY: Final = (errno.ENETUNREACH, errno.EHOSTUNREACH, errno.EHOSTDOWN, errno.ETIMEDOUT)
_WRONG_NAME: Final = (62, 64)


def describe(access: Access, error: BaseException, timeout: float) -> str:
    """Return the message for an HttpFault or an error of the system; `timeout` is that of the response, in seconds."""
    server = access.server
    cause = _cause(error)
    if isinstance(error, ProxyRefused):
        proxy = _without_password(access.proxy)
        return f"the proxy {proxy} refuses to connect to {server}: {error.status} {error.reason}"
    if isinstance(error, ProxyUnreachable):
        proxy = _without_password(access.proxy)
        return f"the proxy {proxy} on the way to {server} cannot be reached: {_system(cause)}"
    if isinstance(error, Lost) and is_tls(error):  # an alert after the handshake
        return f"{server} closed the TLS connection: {_system(cause)}"
    if isinstance(cause, ssl.SSLCertVerificationError):
        return f"{server} presents an invalid certificate: {_verification(access, cause)}"
    if isinstance(cause, ssl.SSLError):
        if cause.reason in ("WRONG_VERSION_NUMBER", "HTTP_REQUEST", "RECORD_LAYER_FAILURE"):
            return f"{server} does not speak TLS; is its scheme http://?"
        return f"{server} failed the TLS handshake: {cause.reason or cause}"
    if isinstance(cause, socket.gaierror):
        return f"{server} cannot be resolved: {cause.strerror}"
    if isinstance(cause, ConnectionRefusedError):
        return f"{server} refuses connections; is the API server running?"
    if isinstance(error, ConnectTimeout):
        return f"{server} does not accept a connection within {CONNECT_TIMEOUT:g} s"
    if isinstance(cause, TimeoutError) and cause.errno is None:
        return f"{server} does not respond within {timeout:g} s"
    if isinstance(error, Incomplete):
        return f"{server} closed the connection before the end of its response"
    if isinstance(error, NoResponse):
        return f"{server} closed the connection without a response"
    if isinstance(error, NotHttp):
        return f"{server} does not speak HTTP: {' '.join(str(error).split())[:120]}"
    if isinstance(cause, OSError):
        return f"{server} cannot be reached: {_system(cause)}"
    return f"{server} cannot be reached: {type(cause).__name__}"


def is_tls(error: BaseException) -> bool:
    """Whether it is a TLS error, possibly because the certificate was refused."""
    cause = _cause(error)
    # After the handshake, only the text of the exception shows it.
    return isinstance(cause, ssl.SSLError) or "[SSL" in str(cause)


def is_away(error: BaseException) -> bool:
    """Whether the error means that the server accepts no connections."""
    if isinstance(error, (ConnectTimeout, ConnectionRefusedError, socket.gaierror)):
        return True
    return isinstance(error, OSError) and error.errno in _AWAY


def _cause(error: BaseException) -> BaseException:
    """Return the system's error within an HttpFault, or the error itself."""
    return error.error if isinstance(error, (Lost, ProxyUnreachable)) else error


def _system(error: BaseException) -> str:
    return str(getattr(error, "strerror", None) or error or type(error).__name__)


def _verification(access: Access, error: ssl.SSLCertVerificationError) -> str:
    if error.verify_code in (_EXPIRED, _NOT_YET_VALID):
        advice = "renew it on the control plane, or set this host's clock"
    elif error.verify_code in _WRONG_NAME:
        advice = "connect by a name that it contains, or set tls-server-name in a kubeconfig"
    elif isinstance(access.authority, str):
        advice = f"is {access.authority} the CA of this cluster?"
    elif access.authority is not None:
        advice = "does certificate-authority-data of the kubeconfig belong to this cluster?"
    else:
        advice = 'give the CA of the cluster ("tls CERT KEY CACERT", or certificate-authority in a kubeconfig)'
    return f"{error.verify_message}; {advice}"


def _without_password(proxy: str) -> str:
    parts = urlsplit(proxy)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"
