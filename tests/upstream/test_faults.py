from __future__ import annotations

import socket
import ssl

import pytest

from hsdns.upstream.faults import ConnectionClosed, ProtocolViolation, describe


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (ConnectionClosed("closed the connection"), "closed the connection"),
        (OSError(113, "No route to host"), "cannot be reached: No route to host"),
        (
            socket.gaierror(socket.EAI_FAMILY, "Address family not supported"),
            "cannot be reached: Address family not supported",
        ),
        (
            ssl.SSLError(1, "[SSL: WRONG_VERSION] wrong"),
            "failed the TLS handshake: [SSL: WRONG_VERSION] wrong",
        ),
        (ProtocolViolation("answers with HTTP status 404"), "answers with HTTP status 404"),
        (ValueError("odd"), "odd"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else "",
)
def test_describe(error: Exception, sentence: str) -> None:
    assert describe(error).endswith(sentence)
