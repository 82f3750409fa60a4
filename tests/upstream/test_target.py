"""What the words of an upstream mean, resolv.conf, and TLS."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest

from hsdns.corefile.tree import CorefileError, Line, Position, Token
from hsdns.upstream.target import (
    HostTarget,
    Target,
    make_context,
    nameservers,
    read_address,
    read_search_list,
    read_tls,
    read_upstreams,
)
from tests.support.tables import Row, columns, rows
from tests.support.upstreams.certificate import Certificate, make_certificate

TARGETS = Path(__file__).with_name("targets.txt")
HERE = Position("Corefile", 2, 13)


def token(text: str) -> Token:
    return Token(text, HERE)


def shown(target: Target | HostTarget) -> str:
    if isinstance(target, Target):
        return f"{target.transport} {target} {target.server_name}"
    return f"host {target.transport} {target.host} {target.port} {target.server_name}"


@pytest.mark.parametrize(("word", "expected"), columns(TARGETS, "targets"))
def test_targets(word: str, expected: str) -> None:
    try:
        (target,) = read_upstreams(token(word))
        found = shown(target)
        assert isinstance(target, Target) or target.position == HERE
    except CorefileError as error:
        assert error.position == HERE
        found = f"! {error.message}"
    assert found == expected


@pytest.mark.parametrize(("given", "expected"), columns(TARGETS, "hosts at addresses"))
def test_a_host_at_an_address(given: str, expected: str) -> None:
    word, address = given.split()
    (host,) = read_upstreams(token(word))
    assert isinstance(host, HostTarget)
    assert shown(host.at(address)) == expected


@pytest.mark.parametrize(("word", "expected"), columns(TARGETS, "plain addresses"))
def test_read_address(word: str, expected: str) -> None:
    if expected != "refused":
        assert shown(read_address(token(word))) == f"dns {expected} None"
        return
    with pytest.raises(CorefileError) as caught:
        read_address(token(word))
    assert str(caught.value) == (
        f'Corefile:2:13: "{word}" is not an IP address; write one such as "10.0.0.2" or "10.0.0.2:53"'
    )


def test_file_with_a_host_name(tmp_path: Path) -> None:
    path = tmp_path / "resolv.conf"
    path.write_text("nameserver ns.example.org\n")
    with pytest.raises(
        CorefileError, match=r'nameserver "ns\.example\.org" in .* is not an IP address'
    ):
        read_upstreams(token(str(path)))


@pytest.mark.parametrize("row", rows(Path(__file__).with_name("resolv_confs.txt")))
def test_resolv_conf(row: Row, tmp_path: Path) -> None:
    path = tmp_path / "resolv.conf"
    assert read_search_list(str(path)) == ()
    path.write_text(row.given, newline="")
    servers = [
        target.address for target in read_upstreams(token(str(path))) if isinstance(target, Target)
    ]
    search = [name.to_text() for name in read_search_list(str(path))]
    assert nameservers(row.given) == servers
    assert [" ".join(each) or "none" for each in (servers, search)] == row.expected


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


@pytest.mark.parametrize("name", ["dns.example.net", "bücher.example"])
def test_a_name_in_ascii_needs_no_codec(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    context, given = make_context(), list[object]()
    monkeypatch.setattr(context, "_encode_hostname", given.append)
    context.check_hostname = False
    context.wrap_bio(ssl.MemoryBIO(), ssl.MemoryBIO(), server_hostname=name)
    assert given == [name.encode() if name.isascii() else name]


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
def test_tls_errors(words: tuple[str, ...], sentence: str) -> None:
    with pytest.raises(CorefileError) as caught:
        make_context(read_tls(line(*words)))
    assert str(caught.value) == sentence
