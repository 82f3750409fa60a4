from __future__ import annotations

import pytest

from hsdns.corefile.keys import (
    HostPort,
    listen_address,
    optional_argument,
    split_host_port,
    split_ip_port,
)
from hsdns.corefile.properties import duration_to_text, parse_duration
from hsdns.corefile.tree import CorefileError
from tests.support.plugins.setup import directives


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
