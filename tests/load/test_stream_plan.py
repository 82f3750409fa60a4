import pytest

from hsdns.load.plan import DOH, DOT, TCP, StreamPlan, authority, transport_words


@pytest.mark.parametrize(
    ("streams", "words", "is_encrypted"),
    [
        (StreamPlan(TCP), "TCP", False),
        (StreamPlan(DOT), "DNS over TLS", True),
        (StreamPlan(DOH), "DNS over HTTPS", True),
        (StreamPlan(for_truncated=True), "UDP (TCP for what is truncated)", False),
    ],
)
def test_words(streams: StreamPlan, words: str, is_encrypted: bool) -> None:
    assert (transport_words(streams), streams.is_encrypted) == (words, is_encrypted)


def test_udp() -> None:
    assert transport_words(None) == "UDP"


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
