"""Keys of server blocks, zones, addresses and durations in arguments; keys.txt has the cases."""

from __future__ import annotations

import ipaddress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hsdns.corefile.keys import (
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
from tests.support.tables import columns

PLACE = Position("Corefile", 1, 5)
TABLE = Path(__file__).with_name("keys.txt")


def token(text: str) -> Token:
    return Token(text, PLACE)


@pytest.mark.parametrize(("text", "expected"), columns(TABLE, "keys"))
def test_parse_key(text: str, expected: str) -> None:
    """Zones with scheme and port, and a warning; or an error."""
    try:
        keys = parse_key(token(text), 1053)
    except CorefileError as error:
        assert (error.position, f"! {error.message}") == (PLACE, expected)
        return
    shown = " ".join(f"{key.scheme}://{key.zone.to_text()}:{key.port}" for key in keys)
    warnings = [f" ? {warning}" for key in keys if (warning := zone_warning(key))]
    assert "".join([shown, *warnings]) == expected
    assert all(key.zone.wire == key.zone.lower and key.token.text == text for key in keys)


@pytest.mark.parametrize(("texts", "expected"), columns(TABLE, "zones"))
def test_zones_from_args(texts: str, expected: str) -> None:
    tokens = [Token(text, Position("Corefile", 2, at)) for at, text in enumerate(texts.split(), 1)]
    if expected == "refused":
        with pytest.raises(CorefileError) as caught:
            zones_from_args(tokens)
        assert caught.value.position == tokens[-1].position
    else:
        assert " ".join(zone.to_text() for zone in zones_from_args(tokens)) == expected


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


@pytest.mark.parametrize(("text", "expected"), columns(TABLE, "hosts and ports"))
def test_split_host_port(text: str, expected: str) -> None:
    found = split_host_port(text)
    assert (f"{found.host!r} {found.port}" if found else "None") == expected


@pytest.mark.parametrize(("text", "expected"), columns(TABLE, "hosts and ports, by default 53"))
def test_default_port(text: str, expected: str) -> None:
    """Of any host, then of an address."""
    found, address = split_host_port(text, 53), split_ip_port(text, 53)
    assert f"{f'{found.host!r} {found.port}' if found else 'None'} {address}" == expected


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


@pytest.mark.parametrize(("word", "expected"), columns(TABLE, "durations"))
def test_durations(word: str, expected: str) -> None:
    """The seconds that are read, and how they are written."""
    seconds = parse_duration(word)
    shown = "None" if seconds is None else f"{seconds:.9g} {duration_to_text(seconds)}"
    assert shown == expected
