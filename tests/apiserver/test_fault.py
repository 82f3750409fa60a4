import errno
import socket
import ssl

import pytest

from hsdns.apiserver.access import Access
from hsdns.apiserver.client import describe, is_away
from hsdns.apiserver.connections import (
    ConnectTimeout,
    HttpFault,
    Incomplete,
    Lost,
    NoResponse,
    NotHttp,
    ProxyUnreachable,
)

ACCESS = Access("https://host:443", "/ca.crt", proxy="http://me:hunter2@proxy:3128")
ALERT = "[SSL: TLSV13_ALERT_CERTIFICATE_REQUIRED] tlsv13 alert certificate required"


def unverified(code: int, message: str) -> ssl.SSLCertVerificationError:
    error = ssl.SSLCertVerificationError(1, "[SSL: CERTIFICATE_VERIFY_FAILED]")
    error.verify_code, error.verify_message = code, message
    return error


def of_tls(reason: str) -> ssl.SSLError:
    error = ssl.SSLError(1, f"[SSL: {reason}]")
    error.reason = reason
    return error


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        pytest.param(ConnectionRefusedError(111, "no"), "refuses connections; is the API server running?", id="refused"),
        pytest.param(OSError(errno.ENETUNREACH, "Network is unreachable"), "cannot be reached: Network is unreachable", id="network"),
        pytest.param(socket.gaierror(-2, "Name or service not known"), "cannot be resolved: Name or service not known", id="name"),
        pytest.param(ConnectTimeout(), "does not accept a connection within 10 s", id="connecting"),
        pytest.param(TimeoutError(), "does not respond within 7 s", id="waiting"),
        pytest.param(TimeoutError(errno.ETIMEDOUT, "Connection timed out"), "cannot be reached: Connection timed out", id="kernel"),
        pytest.param(Lost(ConnectionResetError(errno.ECONNRESET, "Connection reset by peer")), "cannot be reached: Connection reset by peer", id="reset"),
        pytest.param(NoResponse(), "closed the connection without a response", id="closed"),
        pytest.param(Incomplete(), "closed the connection before the end of its response", id="cut"),
        pytest.param(unverified(20, "unable to get local issuer certificate"), "presents an invalid certificate: unable to get local issuer certificate; is /ca.crt the CA of this cluster?", id="issuer"),
        pytest.param(unverified(10, "certificate has expired"), "presents an invalid certificate: certificate has expired; renew it on the control plane, or set this host's clock", id="expired"),
        pytest.param(unverified(9, "certificate is not yet valid"), "presents an invalid certificate: certificate is not yet valid; renew it on the control plane, or set this host's clock", id="too-early"),
        pytest.param(unverified(64, "IP address mismatch"), "presents an invalid certificate: IP address mismatch; connect by a name that it contains, or set tls-server-name in a kubeconfig", id="wrong-name"),
        pytest.param(of_tls("WRONG_VERSION_NUMBER"), "does not speak TLS; is its scheme http://?", id="no-tls"),
        pytest.param(of_tls("NO_PROTOCOLS_AVAILABLE"), "failed the TLS handshake: NO_PROTOCOLS_AVAILABLE", id="tls"),
        pytest.param(Lost(ssl.SSLError(1, ALERT)), f"closed the TLS connection: {ALERT}", id="alert"),
        pytest.param(NotHttp("Invalid  header\nvalue"), "does not speak HTTP: Invalid header value", id="http"),
        pytest.param(HttpFault("Bearer hunter2"), "cannot be reached: HttpFault", id="else"),
    ],
)  # fmt: skip
def test_describe(error: BaseException, sentence: str) -> None:
    assert describe(ACCESS, error, 7.0) == f"https://host:443 {sentence}"


@pytest.mark.parametrize(
    ("error", "found"),
    [
        pytest.param(ConnectionRefusedError(errno.ECONNREFUSED, "x"), True, id="refused"),
        pytest.param(OSError(errno.EHOSTUNREACH, "x"), True, id="unreachable"),
        pytest.param(TimeoutError(errno.ETIMEDOUT, "x"), True, id="kernel"),
        pytest.param(socket.gaierror(-2, "x"), True, id="name"),
        pytest.param(ConnectTimeout(), True, id="connecting"),
        pytest.param(TimeoutError(), False, id="waiting"),
        pytest.param(NoResponse(), False, id="closed"),
        pytest.param(Lost(ConnectionResetError(errno.ECONNRESET, "x")), False, id="reset"),
        pytest.param(of_tls("X"), False, id="tls"),
        pytest.param(ProxyUnreachable(ConnectionRefusedError(111, "x")), False, id="proxy"),
    ],
)
def test_is_away(error: BaseException, found: bool) -> None:
    assert is_away(error) is found


def test_the_password_of_a_proxy_is_not_shown() -> None:
    error = ProxyUnreachable(ConnectionRefusedError(111, "refused"))
    assert describe(ACCESS, error, 1.0) == (
        "the proxy http://proxy:3128 on the way to https://host:443 cannot be reached: refused"
    )
