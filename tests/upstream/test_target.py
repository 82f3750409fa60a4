"""What the words of an upstream mean, resolv.conf, and TLS."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest

from hsdns.corefile.tree import CorefileError, Line, Position, Token
from hsdns.upstream.target import (
    HTTP2,
    HostTarget,
    Target,
    TlsFiles,
    make_context,
    nameservers,
    read_address,
    read_search_list,
    read_tls,
    read_upstreams,
    search_list,
)
from tests.support.upstreams.certificate import Certificate, make_certificate


def token(text: str) -> Token:
    return Token(text, Position("Corefile", 2, 13))


@pytest.mark.parametrize(
    ("text", "expected", "shown"),
    [
        ("10.0.0.2", Target("dns", "10.0.0.2", 53), "10.0.0.2:53"),
        ("10.0.0.2:5353", Target("dns", "10.0.0.2", 5353), "10.0.0.2:5353"),
        ("dns://10.0.0.2", Target("dns", "10.0.0.2", 53), "10.0.0.2:53"),
        ("2001:DB8::1", Target("dns", "2001:db8::1", 53), "[2001:db8::1]:53"),
        ("[2001:db8::1]", Target("dns", "2001:db8::1", 53), "[2001:db8::1]:53"),
        ("[2001:db8::1]:1053", Target("dns", "2001:db8::1", 1053), "[2001:db8::1]:1053"),
        ("dns://[::1]:1053", Target("dns", "::1", 1053), "[::1]:1053"),
        ("fe80::1%eth0", Target("dns", "fe80::1%eth0", 53), "[fe80::1%eth0]:53"),
        ("tls://9.9.9.9", Target("tls", "9.9.9.9", 853), "9.9.9.9:853"),
        ("tls://[::1]:8853", Target("tls", "::1", 8853), "[::1]:8853"),
        (
            "tls://9.9.9.9%dns.example.net",
            Target("tls", "9.9.9.9", 853, "dns.example.net"),
            "9.9.9.9:853",
        ),
        (
            "tls://9.9.9.9:8853%dns.example.net",
            Target("tls", "9.9.9.9", 8853, "dns.example.net"),
            "9.9.9.9:8853",
        ),
        (
            "tls://[::1]:8853%dns.example.net",
            Target("tls", "::1", 8853, "dns.example.net"),
            "[::1]:8853",
        ),
        ("tls://::1%dns.example.net", Target("tls", "::1", 853, "dns.example.net"), "[::1]:853"),
        ("https://9.9.9.9", Target("https", "9.9.9.9", 443), "9.9.9.9:443"),
        (
            "https://[::1%dns.example.net]:8443",
            Target("https", "::1", 8443, "dns.example.net"),
            "[::1]:8443",
        ),
        (
            "tls://9.9.9.9%dns.example.net:8853",
            Target("tls", "9.9.9.9", 8853, "dns.example.net"),
            "9.9.9.9:8853",
        ),
        (
            "tls://[::1%dns.example.net]:8853",
            Target("tls", "::1", 8853, "dns.example.net"),
            "[::1]:8853",
        ),
    ],
)
def test_addresses(text: str, expected: Target, shown: str) -> None:
    assert read_upstreams(token(text)) == [expected]
    assert str(expected) == shown


NEITHER = 'is not an IP address, a file or a host name; write an address such as "10.0.0.2:53"'


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("dns.example.net", ("dns", "dns.example.net", 53, None)),
        ("dns.example.net.:5353", ("dns", "dns.example.net.", 5353, None)),
        ("kube-dns", ("dns", "kube-dns", 53, None)),
        ("dns://dns_1.example.net", ("dns", "dns_1.example.net", 53, None)),
        ("tls://dns.example.net", ("tls", "dns.example.net", 853, None)),
        ("https://dns.example.net:8443", ("https", "dns.example.net", 8443, None)),
        ("tls://a.example%dns.example.net:8853", ("tls", "a.example", 8853, "dns.example.net")),
    ],
)
def test_host_names(text: str, expected: tuple[str, str, int, str | None]) -> None:
    assert read_upstreams(token(text)) == [HostTarget(*expected, Position("Corefile", 2, 13))]


@pytest.mark.parametrize(
    ("text", "address", "expected"),
    [
        ("a.example.", "10.0.0.2", Target("dns", "10.0.0.2", 53)),
        ("tls://a.example.", "::1", Target("tls", "::1", 853, "a.example")),
        ("https://a.example%b.example", "::1", Target("https", "::1", 443, "b.example")),
    ],
)
def test_a_host_at_an_address(text: str, address: str, expected: Target) -> None:
    (host,) = read_upstreams(token(text))
    assert isinstance(host, HostTarget)
    assert host.at(address) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("10.0.0.2", Target("dns", "10.0.0.2", 53)),
        ("10.0.0.2:1053", Target("dns", "10.0.0.2", 1053)),
        ("::1", Target("dns", "::1", 53)),
        ("[::1]:1053", Target("dns", "::1", 1053)),
    ],
)
def test_read_address(text: str, expected: Target) -> None:
    assert read_address(token(text)) == expected


@pytest.mark.parametrize(
    "text", ["dns.example.net", "10.0.0.2:0", "10.0.0.2:123456", "tls://10.0.0.2"]
)
def test_what_is_no_address(text: str) -> None:
    with pytest.raises(CorefileError) as caught:
        read_address(token(text))
    sentence = f'"{text}" is not an IP address; write one such as "10.0.0.2" or "10.0.0.2:53"'
    assert str(caught.value) == f"Corefile:2:13: {sentence}"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        pytest.param(
            "quic://9.9.9.9",
            '"quic://9.9.9.9": hsdns forwards over dns://, tls:// and https://, not quic://; change the scheme',
            id="scheme",
        ),
        pytest.param(
            "https://9.9.9.9/dns-query",
            '"https://9.9.9.9/dns-query": the path of an https:// upstream is always /dns-query; leave the path out',
            id="path",
        ),
        pytest.param("10.0.0.2:70000", f'"10.0.0.2:70000" {NEITHER}', id="port"),
        pytest.param("10.0.0.2:123456", f'"10.0.0.2:123456" {NEITHER}', id="long-port"),
        pytest.param("10.0.0.256", f'"10.0.0.256" {NEITHER}', id="address"),
        pytest.param("/no/such/file", f'"/no/such/file" {NEITHER}', id="no-file"),
        pytest.param("a..example", f'"a..example" {NEITHER}', id="no-host"),
        pytest.param("dns.example.net:0", f'"dns.example.net:0" {NEITHER}', id="host-and-port-0"),
        pytest.param("/", 'cannot read "/" for its nameservers: Is a directory', id="folder"),
    ],
)
def test_errors(text: str, sentence: str) -> None:
    with pytest.raises(CorefileError) as caught:
        read_upstreams(token(text))
    assert str(caught.value) == f"Corefile:2:13: {sentence}"


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        pytest.param("search x\n", [], id="none"),
        pytest.param(
            "nameserver 10.0.0.1\nnameserver fe80::1%eth0\n",
            [Target("dns", "10.0.0.1", 53), Target("dns", "fe80::1%eth0", 53)],
            id="two",
        ),
    ],
)
def test_file(content: str, expected: list[Target], tmp_path: Path) -> None:
    path = tmp_path / "resolv.conf"
    path.write_text(content)
    assert read_upstreams(token(str(path))) == expected


def test_file_with_a_host_name(tmp_path: Path) -> None:
    path = tmp_path / "resolv.conf"
    path.write_text("nameserver ns.example.org\n")
    with pytest.raises(
        CorefileError, match=r'nameserver "ns\.example\.org" in .* is not an IP address'
    ):
        read_upstreams(token(str(path)))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("", [], id="empty"),
        pytest.param("nameserver 10.0.0.1\n", ["10.0.0.1"], id="one"),
        pytest.param(
            "search a b\nnameserver 10.0.0.1\noptions ndots:5\n\tnameserver\t::1 # x",
            ["10.0.0.1", "::1"],
            id="among-others",
        ),
        pytest.param("#nameserver 10.0.0.1\n;nameserver 10.0.0.2\n", [], id="comments"),
        pytest.param("nameserver\n", [], id="without-address"),
        pytest.param(
            "".join(f"nameserver 10.0.0.{k}\n" for k in range(5)),
            [f"10.0.0.{k}" for k in range(5)],
            id="more-than-three",
        ),
        pytest.param("nameserver 10.0.0.1\r\n", ["10.0.0.1"], id="crlf"),
    ],
)
def test_nameservers(text: str, expected: list[str]) -> None:
    assert nameservers(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("", [], id="empty"),
        pytest.param("nameserver 10.0.0.1\nsearch a.lab B.lab.\n", ["a.lab.", "b.lab."], id="search"),
        pytest.param("domain a.lab b.lab\n", ["a.lab."], id="domain"),
        pytest.param("search a.lab\ndomain b.lab\n", ["b.lab."], id="the last one counts"),
        pytest.param("domain b.lab\nsearch\n", [], id="none"),
        pytest.param("domain b.lab\ndomain\n", ["b.lab."], id="no domain"),
        pytest.param("search a..b x.lab\n", ["x.lab."], id="no name"),
        pytest.param("# search a.lab\n", [], id="comment"),
    ],
)  # fmt: skip
def test_search_list(text: str, expected: list[str]) -> None:
    assert [name.to_text() for name in search_list(text)] == expected


def test_a_file_that_is_not_there_has_no_search_list(tmp_path: Path) -> None:
    path = tmp_path / "resolv.conf"
    assert read_search_list(str(path)) == ()
    path.write_text("search a.lab\n")
    assert len(read_search_list(str(path))) == 1


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
def test_tls_errors(words: tuple[str, ...], sentence: str) -> None:
    with pytest.raises(CorefileError) as caught:
        make_context(read_tls(line(*words)))
    assert str(caught.value) == sentence


def test_a_file_that_is_no_certificate(tmp_path: Path) -> None:
    path = tmp_path / "ca.pem"
    path.write_text("no certificate")
    with pytest.raises(CorefileError, match=r'^Corefile:3:9: cannot use ".*ca\.pem" for TLS: '):
        make_context(read_tls(line(str(path))))
