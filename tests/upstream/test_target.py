from __future__ import annotations

from pathlib import Path

import pytest

from hsdns.corefile.tree import CorefileError, Position, Token
from hsdns.upstream.target import Target, read_targets


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
    assert read_targets(token(text)) == [expected]
    assert str(expected) == shown


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        pytest.param(
            "https://9.9.9.9",
            '"https://9.9.9.9": hsdns forwards over dns:// and tls://, not https://; change the scheme',
            id="scheme",
        ),
        pytest.param(
            "tls://dns.example.net",
            '"tls://dns.example.net" holds no IP address; host names are not looked up here',
            id="host-name-with-scheme",
        ),
        pytest.param(
            "dns.example.net",
            '"dns.example.net" is neither an IP address nor a file; name an address such as "10.0.0.2:53"',
            id="host-name",
        ),
        pytest.param(
            "10.0.0.2:70000",
            '"10.0.0.2:70000" is neither an IP address nor a file; name an address such as "10.0.0.2:53"',
            id="port",
        ),
        pytest.param(
            "10.0.0.256",
            '"10.0.0.256" is neither an IP address nor a file; name an address such as "10.0.0.2:53"',
            id="address",
        ),
        pytest.param("/", 'cannot read "/" for its nameservers: Is a directory', id="folder"),
    ],
)
def test_errors(text: str, sentence: str) -> None:
    with pytest.raises(CorefileError) as caught:
        read_targets(token(text))
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
    assert read_targets(token(str(path))) == expected


def test_file_with_a_host_name(tmp_path: Path) -> None:
    path = tmp_path / "resolv.conf"
    path.write_text("nameserver ns.example.org\n")
    with pytest.raises(
        CorefileError, match=r'nameserver "ns\.example\.org" in .* is not an IP address'
    ):
        read_targets(token(str(path)))
