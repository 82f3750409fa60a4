from __future__ import annotations

import pytest

from hsdns.load.plan import (
    DOH,
    DOT,
    TCP,
    StreamPlan,
    authority,
    transport_words,
)


@pytest.mark.parametrize(
    ("streams", "words", "is_encrypted"),
    [
        (None, "UDP", False),
        (StreamPlan(TCP), "TCP", False),
        (StreamPlan(DOT), "DNS over TLS", True),
        (StreamPlan(DOH), "DNS over HTTPS", True),
        (StreamPlan(for_truncated=True), "UDP (TCP for what is truncated)", False),
    ],
)
def test_words(streams: StreamPlan | None, words: str, is_encrypted: bool) -> None:
    assert transport_words(streams) == words
    assert (streams is not None and streams.is_encrypted) is is_encrypted


@pytest.mark.parametrize(
    ("host", "port", "text"),
    [
        ("dns.test", 443, "dns.test"),
        ("127.0.0.1", 8443, "127.0.0.1:8443"),
        ("::1", 443, "[::1]"),
        ("::1", 8443, "[::1]:8443"),
    ],
)
def test_authority(host: str, port: int, text: str) -> None:
    assert authority(host, port) == text
