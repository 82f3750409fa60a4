from __future__ import annotations

import ssl
from pathlib import Path

import pytest

from hsdns.corefile.tree import CorefileError, Line, Position, Token
from hsdns.upstream.tls import HTTP2, TlsFiles, make_context, read_tls
from tests.support.upstreams.certificate import Certificate, make_certificate


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    return make_certificate(tmp_path_factory.mktemp("tls"), "dns.example.net")


def line(*words: str) -> Line:
    tokens = [Token(word, Position("Corefile", 3, 9 + 4 * k)) for k, word in enumerate(words)]
    return Line(Token("tls", Position("Corefile", 3, 5)), tuple(tokens))


def authorities(context: ssl.SSLContext) -> list[str]:
    return [str(found["subject"]) for found in context.get_ca_certs()]


@pytest.mark.parametrize(
    "context", [make_context(), make_context(read_tls(line()))], ids=["default", "no-files"]
)
def test_the_host_s_authorities(context: ssl.SSLContext) -> None:
    assert context.verify_mode == ssl.CERT_REQUIRED
    assert context.check_hostname
    assert context.minimum_version == ssl.TLSVersion.TLSv1_2


def test_files(certificate: Certificate) -> None:
    cert, key = str(certificate.cert), str(certificate.key)
    for words in ((cert,), (cert, key, cert)):
        context = make_context(read_tls(line(*words)))
        assert len(authorities(context)) == 1
        assert "dns.example.net" in authorities(context)[0]
        assert context.verify_mode == ssl.CERT_REQUIRED
        assert context.check_hostname
        assert context.minimum_version == ssl.TLSVersion.TLSv1_2
    assert make_context(read_tls(line(cert, key))).verify_mode == ssl.CERT_REQUIRED


def test_relative_files_and_alpn(certificate: Certificate) -> None:
    files = read_tls(line(certificate.cert.name))
    context = make_context(files, lambda text: str(certificate.cert.parent / text), HTTP2)
    assert "dns.example.net" in authorities(context)[0]
    assert read_tls(line()) == TlsFiles(None, None, None)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        pytest.param(
            ("a", "b", "c", "d"),
            'Corefile:3:21: property "tls" takes up to 3 files (CERT KEY CA), found 4',
            id="four",
        ),
        pytest.param(
            ("missing.pem",),
            'Corefile:3:9: cannot use "missing.pem" for TLS: No such file or directory',
            id="authority",
        ),
        pytest.param(
            ("missing.pem", "key.pem"),
            'Corefile:3:9: cannot use "missing.pem" for TLS: No such file or directory',
            id="certificate",
        ),
    ],
)
def test_errors(words: tuple[str, ...], sentence: str) -> None:
    with pytest.raises(CorefileError) as caught:
        make_context(read_tls(line(*words)))
    assert str(caught.value) == sentence


def test_a_file_that_is_no_certificate(tmp_path: Path) -> None:
    path = tmp_path / "ca.pem"
    path.write_text("no certificate")
    with pytest.raises(CorefileError, match=r'^Corefile:3:9: cannot use ".*ca\.pem" for TLS: '):
        make_context(read_tls(line(str(path))))
