"""Keys of server blocks, zones, addresses and durations in arguments; keys.txt has the cases."""

from __future__ import annotations

import ipaddress
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hsdns.assemble import assemble
from hsdns.corefile.keys import (
    listen_address,
    optional_argument,
    parse_key,
    split_host_port,
    split_ip_port,
    zone_warning,
    zones_from_args,
)
from hsdns.corefile.parser import parse
from hsdns.corefile.properties import duration_to_text, parse_duration
from hsdns.corefile.tree import CorefileError, Errors, Position, Token, each_error
from hsdns.plugins import NOT_YET, ORDER
from tests.support.disk import Disk
from tests.support.plugins.setup import directives
from tests.support.tables import Row, columns, rows

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


# The tree, its errors, and how they are collected.

AT = Position("conf/Corefile", 12, 5)


def test_parse() -> None:
    assert Token("12", AT).parse(int) == 12
    with pytest.raises(CorefileError, match=r"^conf/Corefile:12:5: invalid literal"):
        Token("x", AT).parse(int)


def errors_of(text: str, **files: str) -> list[str]:
    """All errors of a Corefile in order, each `LINE:COLUMN message` or, in an imported file, with its name."""
    errors = Errors(collecting=True)
    corefile = parse(
        "Corefile",
        text=text,
        environ={},
        known_directives=ORDER,
        not_yet=NOT_YET,
        files=Disk(files),
        errors=errors,
    )
    assemble(
        corefile,
        interfaces=lambda: {"lo": ["127.0.0.1"]},
        validating=True,
        warn=lambda sentence: None,
        errors=errors,
    )
    return [str(error).removeprefix("Corefile:") for error in errors.in_order()]


@pytest.mark.parametrize("row", rows(Path(__file__).with_name("all_errors.txt")))
def test_all_errors(row: Row) -> None:
    assert errors_of(row.given) == row.expected


STOCK = sorted((Path(__file__).parents[1] / "stock").glob("*/Corefile"))


@given(data=st.data())
def test_the_error_that_ends_a_start_is_among_them(data: st.DataObject) -> None:
    """Whatever is done to a Corefile: all are found without an exception, and none where it would start."""
    words = re.findall(r"\n|[^\s]+", data.draw(st.sampled_from(STOCK)).read_text())
    others = [*words, "{", "}", "import", "x", "-1", "{$UNSET}", '"', "(s)", "cach", "tls", "a,"]
    for _ in range(data.draw(st.integers(0, 4))):
        at = data.draw(st.integers(0, len(words)))
        new = data.draw(st.lists(st.sampled_from(others), max_size=2))
        words[at : at + data.draw(st.integers(0, 2))] = new
    text = " ".join(words)
    found = errors_of(text)
    try:
        corefile = parse(
            "Corefile",
            text=text,
            environ={},
            known_directives=ORDER,
            not_yet=NOT_YET,
            files=Disk({}),
        )
        assemble(
            corefile,
            interfaces=lambda: {"lo": ["127.0.0.1"]},
            validating=True,
            warn=lambda sentence: None,
        )
    except CorefileError as error:
        assert str(error).removeprefix("Corefile:") in found
    else:
        assert found == []


def test_the_first_one_is_raised_unless_they_are_collected() -> None:
    error = CorefileError(Position("Corefile", 1, 1), "no")
    with pytest.raises(CorefileError), Errors():
        raise error
    with pytest.raises(CorefileError):
        Errors().add(error)
    errors = Errors(collecting=True)
    assert not errors
    for _ in range(2):
        with errors:
            raise error
    assert errors.in_order() == [error]
    with pytest.raises(ValueError, match="other"), errors:
        raise ValueError("other")


def test_an_error_of_no_word_ends_the_search() -> None:
    def set_up(directives: object) -> None:
        raise CorefileError(Position("elsewhere", 1, 1), "no")

    corefile = parse("Corefile", text=". {\nlog\nlog\n}", environ={}, known_directives=ORDER)
    found = each_error(set_up, corefile.blocks[0].directives)
    assert [str(error) for error in found] == ["elsewhere:1:1: no"]
