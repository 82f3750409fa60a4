"""Keys of server blocks, zones and addresses in arguments."""

from __future__ import annotations

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hsdns.corefile.keys import (
    HostPort,
    listen_address,
    optional_argument,
    parse_key,
    split_host_port,
    split_ip_port,
    zone_warning,
    zones_from_args,
)
from hsdns.corefile.properties import duration_to_text, parse_duration
from hsdns.corefile.tree import CorefileError, Position, Token
from tests.support.plugins.setup import directives

PLACE = Position("Corefile", 1, 5)
LABEL = "a" * 63


def token(text: str) -> Token:
    return Token(text, PLACE)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(".", ["dns://.:1053"], id="root"),
        pytest.param("example.org", ["dns://example.org.:1053"], id="made absolute"),
        pytest.param("Example.ORG.", ["dns://example.org.:1053"], id="lower case"),
        pytest.param(".:5353", ["dns://.:5353"], id="port"),
        pytest.param(".:0", ["dns://.:0"], id="any port"),
        pytest.param(".:+053", ["dns://.:53"], id="sign and zero before the port"),
        pytest.param("dns://.", ["dns://.:1053"], id="dns"),
        pytest.param("tls://example.org", ["tls://example.org.:853"], id="tls"),
        pytest.param("quic://.", ["quic://.:853"], id="quic"),
        pytest.param("grpc://.", ["grpc://.:443"], id="grpc"),
        pytest.param("https://.", ["https://.:443"], id="https"),
        pytest.param("https3://.:8443", ["https3://.:8443"], id="https3"),
        pytest.param(
            "http://host", ["dns://http://host.:1053"], id="unknown scheme is part of the zone"
        ),
        pytest.param("DNS://host", ["dns://dns://host.:1053"], id="schemes are lower case"),
        pytest.param("10.in-addr.arpa", ["dns://10.in-addr.arpa.:1053"], id="reverse zone by name"),
        pytest.param("10.0.0.0/24", ["dns://0.0.10.in-addr.arpa.:1053"], id="octet border"),
        pytest.param("10.0.0.0/24:53", ["dns://0.0.10.in-addr.arpa.:53"], id="network and port"),
        pytest.param(
            "10.0.0.0/22",
            [f"dns://{octet}.0.10.in-addr.arpa.:1053" for octet in range(4)],
            id="four octets",
        ),
        pytest.param(
            "tls://10.0.0.0/15",
            ["tls://0.10.in-addr.arpa.:853", "tls://1.10.in-addr.arpa.:853"],
            id="scheme",
        ),
        pytest.param(
            "192.168.1.1/23",
            ["dns://0.168.192.in-addr.arpa.:1053", "dns://1.168.192.in-addr.arpa.:1053"],
            id="host bits are cleared",
        ),
        pytest.param("1.2.3.4/32", ["dns://4.3.2.1.in-addr.arpa.:1053"], id="one address"),
        pytest.param("0.0.0.0/0", ["dns://in-addr.arpa.:1053"], id="all of IPv4"),
        pytest.param("2001:db8::/32", ["dns://8.b.d.0.1.0.0.2.ip6.arpa.:1053"], id="nibble border"),
        pytest.param(
            "2001:DB8::/31:53",
            ["dns://8.b.d.0.1.0.0.2.ip6.arpa.:53", "dns://9.b.d.0.1.0.0.2.ip6.arpa.:53"],
            id="two nibbles",
        ),
        pytest.param("fe00::/8", ["dns://e.f.ip6.arpa.:1053"], id="short IPv6"),
        pytest.param("10.0.0.0/33", ["dns://10.0.0.0/33.:1053"], id="no mask, so a name"),
        pytest.param("10.0/16", ["dns://10.0/16.:1053"], id="no full address, so a name"),
        pytest.param("10.0.0.0/24.", ["dns://10.0.0.0/24.:1053"], id="final dot, so a name"),
        pytest.param("010.0.0.0/8", ["dns://010.0.0.0/8.:1053"], id="octal, so a name"),
        pytest.param("fe80::1%lo/64", ["dns://fe80::1%lo/64.:1053"], id="scoped, so a name"),
        pytest.param(
            "2001:db8::1", ["dns://2001:db8:.:1"], id="an address ends in what looks like a port"
        ),
        pytest.param("foo:53:54", ["dns://foo:53.:54"], id="the last colon counts"),
    ],
)
def test_parse_key(text: str, expected: list[str]) -> None:
    keys = parse_key(token(text), 1053)
    shown = [f"{key.scheme}://{key.zone.to_text()}:{key.port}" for key in keys]
    assert shown == expected
    assert all(key.zone.wire == key.zone.lower and key.token.text == text for key in keys)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param("", '"" names no zone; the root zone is "."', id="empty"),
        pytest.param("dns://", '"dns://" names no zone; the root zone is "."', id="scheme only"),
        pytest.param(
            ":53", '":53" names no zone; the root zone is ".", so write ".:53"', id="port only"
        ),
        pytest.param(
            "dns://:53",
            '"dns://:53" names no zone; the root zone is ".", so write ".:53"',
            id="scheme and port",
        ),
        pytest.param(
            "a:", '"a:" ends in a colon; add a port or leave the colon out', id="colon at the end"
        ),
        pytest.param(
            ".:70000", '"70000" in ".:70000" is not a port; ports are 0 to 65535', id="port too big"
        ),
        pytest.param(
            ".:-1", '"-1" in ".:-1" is not a port; ports are 0 to 65535', id="negative port"
        ),
        pytest.param(
            ".:" + "9" * 30,
            f'"{"9" * 30}" in ".:{"9" * 30}" is not a port; ports are 0 to 65535',
            id="port of thirty digits",
        ),
        pytest.param(
            "a..b", '"a..b" is not a domain name: a label is empty; remove a dot', id="two dots"
        ),
        pytest.param(
            ".a", '".a" is not a domain name: a label is empty; remove a dot', id="dot before"
        ),
        pytest.param(
            "a" * 64,
            f'"{"a" * 57}..." is not a domain name: '
            f"label b'{'a' * 64}' has 64 octets, allowed are 1 to 63",
            id="long label",
        ),
        pytest.param(
            f"{LABEL}.{LABEL}.{LABEL}.{'a' * 62}",
            f'"{"a" * 57}..." is not a domain name: name has 256 octets, allowed are 255',
            id="long name",
        ),
        pytest.param(
            f"{LABEL}.{LABEL}.{LABEL}.{LABEL}.b",
            f'zone "{"a" * 57}..." is longer than 255 characters; shorten it',
            id="long text",
        ),
        pytest.param(
            ".:53{", '".:53{" is not a domain name: put a space before the "{"', id="glued brace"
        ),
        pytest.param(
            "a\\", '"a\\" is not a domain name: "a\\" ends in a backslash', id="backslash"
        ),
        pytest.param(
            "\ud800",
            '"\ud800" is not a domain name: it contains characters that are not valid Unicode',
            id="lone surrogate",
        ),
        pytest.param(
            "::1/128",
            '"::1/128" is not a reverse zone; an IPv6 network may not begin with ":" or "0"',
            id="IPv6 from a colon",
        ),
        pytest.param(
            "0:1::/32",
            '"0:1::/32" is not a reverse zone; an IPv6 network may not begin with ":" or "0"',
            id="IPv6 from zero",
        ),
        pytest.param(
            "unix:///run/x",
            '"unix:///run/x": a server cannot listen on a unix socket; '
            "schemes are dns, tls, quic, grpc, https, https3",
            id="unix",
        ),
    ],
)
def test_wrong_keys(text: str, message: str) -> None:
    with pytest.raises(CorefileError) as caught:
        parse_key(token(text), 53)
    assert str(caught.value) == f"Corefile:1:5: {message}"


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        pytest.param([], [], id="none"),
        pytest.param(
            ["Cluster.Local", "in-addr.arpa", "ip6.arpa"],
            ["cluster.local.", "in-addr.arpa.", "ip6.arpa."],
            id="names",
        ),
        pytest.param(
            ["10.0.0.0/23"], ["0.0.10.in-addr.arpa.", "1.0.10.in-addr.arpa."], id="network"
        ),
        pytest.param(
            ["tls://a.org:853", "unix://b"], ["a.org.", "b."], id="scheme and port are read over"
        ),
        pytest.param(["a.org:99999"], None, id="but a wrong port is wrong"),
        pytest.param(["a.org", "b..org"], None, id="no name"),
        pytest.param(["a.org:"], None, id="colon at the end"),
        pytest.param([""], None, id="empty"),
    ],
)
def test_zones_from_args(texts: list[str], expected: list[str] | None) -> None:
    tokens = [Token(text, Position("Corefile", 2, number)) for number, text in enumerate(texts, 1)]
    if expected is None:
        with pytest.raises(CorefileError) as caught:
            zones_from_args(tokens)
        assert caught.value.position == tokens[-1].position
    else:
        assert [zone.to_text() for zone in zones_from_args(tokens)] == expected


@pytest.mark.parametrize(
    ("text", "end"),
    [
        pytest.param(".", None, id="root"),
        pytest.param("a-1.example.org", None, id="host name"),
        pytest.param("0-63.2.0.192.in-addr.arpa", None, id="reverse"),
        pytest.param(
            "_tcp.example.org",
            'zone "_tcp.example.org." does not follow the preferred syntax of RFC 1035',
            id="underscore",
        ),
        pytest.param(
            "http://a", '; "http" is not a scheme; did you mean "https"?', id="unknown scheme"
        ),
        pytest.param(
            "DNS://a", '; "DNS" is not a scheme; did you mean "dns"?', id="scheme in upper case"
        ),
        pytest.param("}", '; is this "}" superfluous?', id="closing brace"),
        pytest.param("a.org{", '; put a space before the "{"', id="glued brace"),
        pytest.param("a.org,b.org", "; put a space after the comma", id="glued comma"),
        pytest.param("a.org:dns", '; "dns" is not a port number', id="port by name"),
        pytest.param("(s)", "; is this meant to be a snippet?", id="snippet"),
    ],
)
def test_zone_warning(text: str, end: str | None) -> None:
    (key,) = parse_key(token(text), 53)
    found = zone_warning(key)
    if end is None:
        assert found is None
    else:
        assert found is not None
        assert found.endswith(end)


@given(st.text(st.sampled_from("a0./:-%[]\\9fd") | st.characters(), max_size=30))
def test_any_key_gives_zones_or_an_error_with_its_position(text: str) -> None:
    try:
        keys = parse_key(token(text), 53)
    except CorefileError as caught:
        error = caught
    else:
        assert 1 <= len(keys) <= 128
        assert all(0 <= key.port <= 65535 for key in keys)
        return
    assert error.position == PLACE


@given(st.ip_addresses(v=4), st.integers(0, 32))
def test_reverse_zones_cover_the_network_and_nothing_else(
    address: ipaddress.IPv4Address, bits: int
) -> None:
    network = ipaddress.IPv4Network(f"{address}/{bits}", strict=False)
    zones = zones_from_args([token(f"{address}/{bits}")])
    covered = []
    for zone in zones:
        octets = [int(label) for label in zone.labels[:-2]][::-1]
        dotted = ".".join(str(octet) for octet in [*octets, 0, 0, 0, 0][:4])
        covered.append(ipaddress.IPv4Network(f"{dotted}/{8 * len(octets)}"))
    assert list(ipaddress.collapse_addresses(covered)) == [network]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(":8080", HostPort("", 8080), id="port"),
        pytest.param("127.0.0.1:8080", HostPort("127.0.0.1", 8080), id="ipv4"),
        pytest.param("[::1]:8080", HostPort("::1", 8080), id="ipv6"),
        pytest.param("localhost:9153", HostPort("localhost", 9153), id="name"),
        pytest.param("[]:1", HostPort("", 1), id="empty-brackets"),
        pytest.param(":0", HostPort("", 0), id="port-0"),
        pytest.param("8080", None, id="no-colon"),
        pytest.param("::1:8080", None, id="ipv6-without-brackets"),
        pytest.param("localhost", None, id="name-alone"),
        pytest.param("localhost:", None, id="no-port"),
        pytest.param(":65536", None, id="port-too-big"),
        pytest.param(":http", None, id="service-name"),
        pytest.param("[::1]8080", None, id="no-colon-after-bracket"),
    ],
)
def test_split_host_port(text: str, expected: HostPort | None) -> None:
    assert split_host_port(text) == expected


@pytest.mark.parametrize(
    ("text", "expected", "address"),
    [
        ("192.0.2.1", HostPort("192.0.2.1", 53), "192.0.2.1:53"),
        ("2001:DB8::1", HostPort("2001:DB8::1", 53), "[2001:db8::1]:53"),
        ("[::1]", HostPort("::1", 53), "[::1]:53"),
        ("[::1]:1053", HostPort("::1", 1053), "[::1]:1053"),
        ("a.example:1053", HostPort("a.example", 1053), None),
        ("a.example", HostPort("a.example", 53), None),
        ("192.0.2.1:0", HostPort("192.0.2.1", 0), None),
        ("192.0.2.1:65536", None, None),
        ("192.0.2.1:123456", HostPort("192.0.2.1:123456", 53), None),
    ],
)
def test_default_port(text: str, expected: HostPort | None, address: str | None) -> None:
    assert split_host_port(text, 53) == expected
    found = split_ip_port(text, 53)
    assert (found and str(found)) == address


def test_listen_address_says_how_to_write_it() -> None:
    with pytest.raises(CorefileError) as caught:
        listen_address(directives("ready 8080")[0], ":8181")
    assert str(caught.value) == (
        'Corefile:2:7: "8080" is not an address and port; write it as ":8080", "127.0.0.1:8080" or "[::1]:8080"'
    )


def test_optional_argument_refuses_a_second() -> None:
    with pytest.raises(CorefileError) as caught:
        optional_argument(directives("ready :1 :2")[0])
    assert str(caught.value) == 'Corefile:2:10: "ready" takes at most 1 argument, found 2'


@pytest.mark.parametrize(
    ("written", "text"),
    [
        ("0", "0s"),
        ("1ns", "1ns"),
        ("1.5us", "1.5µs"),
        ("300ms", "300ms"),
        ("1001us", "1.001ms"),
        ("2s", "2s"),
        ("1.5s", "1.5s"),
        ("90s", "1m30s"),
        ("5m", "5m0s"),
        ("1h", "1h0m0s"),
        ("1h2m3.5s", "1h2m3.5s"),
        ("-90s", "-1m30s"),
    ],
)
def test_duration_to_text(written: str, text: str) -> None:
    seconds = parse_duration(written)
    assert seconds is not None
    assert duration_to_text(seconds) == text
