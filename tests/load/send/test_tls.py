"""Both sides of TLS in memory."""

from __future__ import annotations

import ssl

import pytest

from hsdns.load.send.tls import HTTP2, TlsFailure, TlsLayer, client_context
from tests.support.upstreams.certificate import Certificate, make_certificate


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    return make_certificate(tmp_path_factory.mktemp("tls"), "dns.test")


class Server:
    """The other side."""

    def __init__(self, certificate: Certificate, protocols: list[str] | None = None) -> None:
        context = certificate.server_context()
        if protocols:
            context.set_alpn_protocols(protocols)
        self.incoming, self.outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.ssl = context.wrap_bio(self.incoming, self.outgoing, server_side=True)
        self.is_shaken = False

    def feed(self, octets: bytes) -> bytes:
        self.incoming.write(octets)
        found = b""
        try:
            if not self.is_shaken:
                self.ssl.do_handshake()
                self.is_shaken = True
            while octets := self.ssl.read(4096):
                found += octets
        except (ssl.SSLWantReadError, ssl.SSLZeroReturnError):
            pass
        return found

    def take(self) -> bytes:
        return self.outgoing.read()


def shake(layer: TlsLayer, server: Server) -> None:
    layer.shake()
    for _ in range(3):
        server.feed(layer.take())
        layer.feed(server.take())


def test_there_and_back(certificate: Certificate) -> None:
    server = Server(certificate)
    layer = TlsLayer(client_context(str(certificate.cert), insecure=False), "dns.test")
    shake(layer, server)
    assert layer.is_shaken
    layer.write(b"query")
    assert server.feed(layer.take()) == b"query"
    server.ssl.write(b"reply")
    octets = server.take()
    assert layer.feed(octets[:7]) == b""
    assert layer.feed(octets[7:]) == b"reply"
    layer.end()
    assert server.feed(layer.take()) == b""
    assert not layer.is_over


def test_the_server_says_that_it_ends(certificate: Certificate) -> None:
    server = Server(certificate)
    layer = TlsLayer(client_context("", insecure=True), "other.test")
    shake(layer, server)
    server.ssl.write(b"last")
    with pytest.raises(ssl.SSLWantReadError):
        server.ssl.unwrap()
    assert layer.feed(server.take()) == b"last"
    assert layer.is_over


@pytest.mark.parametrize(
    ("name", "trusts", "protocols", "why"),
    [
        ("other.test", True, [], "TLS: Hostname mismatch, certificate is not valid for 'other.test'"),
        ("127.0.0.1", True, [], "TLS: IP address mismatch, certificate is not valid for '127.0.0.1'"),
        ("dns.test", False, [], "TLS: self-signed certificate"),
        ("dns.test", True, [HTTP2], "the server does not choose h2 (ALPN)"),
    ],
)  # fmt: skip
def test_what_is_wrong(
    certificate: Certificate, name: str, trusts: bool, protocols: list[str], why: str
) -> None:
    protocol = protocols[0] if protocols else ""
    ca = str(certificate.cert) if trusts else ""
    layer = TlsLayer(client_context(ca, insecure=False, protocol=protocol), name, protocol)
    with pytest.raises(TlsFailure) as error:
        shake(layer, Server(certificate))
    assert str(error.value) == why


@pytest.mark.parametrize(
    ("octets", "why"),
    [(b"220 mail.example.com ESMTP\r\n", "what answers does not speak TLS"), (b"\x15\3\3\0\2\2\x28", "TLS: sslv3 alert handshake failure")],
)  # fmt: skip
def test_no_tls(octets: bytes, why: str) -> None:
    layer = TlsLayer(client_context("", insecure=True), "dns.test")
    layer.shake()
    with pytest.raises(TlsFailure) as error:
        layer.feed(octets)
    assert str(error.value) == why
