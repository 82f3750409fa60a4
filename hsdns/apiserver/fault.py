"""What goes wrong on the way to the API server, as sentences.

Path: client.py catches -> here -> Unreachable -> the operator's log.
Rule 1: a sentence names the server and the cause, and what to do where that is known; never a header or a password.
"""

from __future__ import annotations

import socket
import ssl
from typing import Final
from urllib.parse import urlsplit

import aiohttp

from hsdns.apiserver.access import Access

CONNECT_TIMEOUT: Final = 10.0  # seconds, name lookup and TLS included
# X509_V_ERR_* of OpenSSL, by what helps against them.
_NOT_YET_VALID: Final = 9
_EXPIRED: Final = 10
_WRONG_NAME: Final = (62, 64)


def describe(access: Access, error: BaseException, patience: float) -> str:
    """The sentence for an error of aiohttp or of the system; `patience` is how long an answer was waited for, in s."""
    server = access.server
    cause = _cause(error)
    if isinstance(error, (aiohttp.ClientHttpProxyError, aiohttp.ClientProxyConnectionError)):
        proxy = _without_password(access.proxy)
        if isinstance(error, aiohttp.ClientHttpProxyError):
            return (
                f"the proxy {proxy} refuses to connect to {server}: {error.status} {error.message}"
            )
        return f"the proxy {proxy} on the way to {server} cannot be reached: {_system(cause)}"
    if isinstance(cause, ssl.SSLCertVerificationError):
        return f"{server} shows a certificate that does not hold: {_verification(access, cause)}"
    if isinstance(cause, ssl.SSLError):
        if cause.reason in ("WRONG_VERSION_NUMBER", "HTTP_REQUEST", "RECORD_LAYER_FAILURE"):
            return f"{server} does not speak TLS; is it http:// there?"
        return f"{server} does not agree on TLS: {cause.reason or cause}"
    if isinstance(cause, socket.gaierror):
        return f"{server} cannot be found: {cause.strerror}"
    if isinstance(cause, ConnectionRefusedError):
        return f"{server} refuses connections; is the API server running?"
    if isinstance(error, aiohttp.ServerTimeoutError):  # of connecting; the session sets no other
        return f"{server} does not accept a connection within {CONNECT_TIMEOUT:g} s"
    if isinstance(cause, TimeoutError) and cause.errno is None:
        return f"{server} does not answer within {patience:g} s"
    if isinstance(error, aiohttp.ClientPayloadError):
        return f"{server} cut its answer short"
    if isinstance(error, aiohttp.ServerDisconnectedError):
        return f"{server} closed the connection without an answer"
    if isinstance(error, aiohttp.ClientResponseError):
        return f"{server} does not speak HTTP: {' '.join(error.message.split())[:120]}"
    if is_tls(error):  # an alert that came after the handshake
        return f"{server} does not agree on TLS: {_system(cause)}"
    if isinstance(cause, OSError):
        return f"{server} cannot be reached: {_system(cause)}"
    return f"{server} cannot be asked: {type(cause).__name__}"


def is_tls(error: BaseException) -> bool:
    """Whether an error is one of TLS: a certificate may be what is refused."""
    # What comes after the handshake reaches us with its text alone.
    return isinstance(error, (aiohttp.ClientSSLError, ssl.SSLError)) or "[SSL" in str(error)


def _cause(error: BaseException) -> BaseException:
    """The error of the system that aiohttp has wrapped, or the error itself."""
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        return error.certificate_error
    if isinstance(error, aiohttp.ClientConnectorError):
        return error.os_error
    return error


def _system(error: BaseException) -> str:
    return str(getattr(error, "strerror", None) or error or type(error).__name__)


def _verification(access: Access, error: ssl.SSLCertVerificationError) -> str:
    if error.verify_code in (_EXPIRED, _NOT_YET_VALID):
        advice = "renew it on the control plane, or set this host's clock"
    elif error.verify_code in _WRONG_NAME:
        advice = "use a name that it has, or tls-server-name in a kubeconfig"
    elif isinstance(access.authority, str):
        advice = f"is {access.authority} the CA of this cluster?"
    elif access.authority is not None:
        advice = "is certificate-authority-data of the kubeconfig that of this cluster?"
    else:
        advice = 'give the CA of the cluster ("tls CERT KEY CACERT", or certificate-authority in a kubeconfig)'
    return f"{error.verify_message}; {advice}"


def _without_password(proxy: str) -> str:
    parts = urlsplit(proxy)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"
