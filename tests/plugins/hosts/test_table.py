from __future__ import annotations

import pytest

from hsdns.plugins.hosts import HostsTable, parse_address, reverse_to_packed
from hsdns.wire.iana import RRType
from hsdns.wire.name import ROOT, Name

B6 = "2.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.8.b.d.0.1.0.0.2.ip6.arpa."


def table(*lines: str, reverse: bool = True) -> HostsTable:
    return HostsTable(lines, [ROOT], reverse=reverse)


@pytest.mark.parametrize(
    ("line", "entries"),
    [
        pytest.param("10.0.0.1 a", 2, id="name"),
        pytest.param("10.0.0.1 a b.c", 4, id="two-names"),
        pytest.param(" \t10.0.0.1\ta # b", 2, id="comment"),
        pytest.param("#10.0.0.1 a", 0, id="comment-alone"),
        pytest.param("10.0.0.1 #a", 0, id="no-name-but-a-comment"),
        pytest.param("10.0.0.1", 0, id="no-name"),
        pytest.param("a 10.0.0.1", 0, id="no-address"),
        pytest.param("10.0.0.1 a..b c", 2, id="no-domain-name"),
        pytest.param("10.0.0.1 " + "a" * 64, 0, id="label-too-long"),
        pytest.param("10.0.0.1 *.a", 1, id="wildcard-has-no-reverse-name"),
        pytest.param("10.0.0.1 *a", 2, id="asterisk-within-a-label"),
        pytest.param("", 0, id="empty"),
        pytest.param("\ufeff10.0.0.1 a", 0, id="byte-order-mark"),
    ],
)
def test_what_a_line_says(line: str, entries: int) -> None:
    assert len(table(line)) == entries


def test_addresses_keep_the_order_of_the_lines() -> None:
    found = table("10.0.0.2 a", "10.0.0.1 a", "::1 a", "10.0.0.2 A.")
    assert found.addresses(Name.from_text("A"), RRType.A) == [b"\n\0\0\2", b"\n\0\0\1", b"\n\0\0\2"]
    assert found.addresses(Name.from_text("a"), RRType.AAAA) == [bytes(15) + b"\1"]
    assert found.addresses(Name.from_text("b"), RRType.A) == []


def test_names_of_an_address() -> None:
    found = table("10.0.0.1 B a", "::ffff:10.0.0.1 c")
    assert [name.to_text() for name in found.names(b"\n\0\0\1")] == ["b.", "a.", "c."]
    assert found.names(b"\n\0\0\2") == []


def test_without_reverse_names() -> None:
    found = table("10.0.0.1 a", reverse=False)
    assert (len(found), found.names(b"\n\0\0\1")) == (1, [])


def test_an_asterisk_stands_for_one_label() -> None:
    found = table("10.0.0.1 *.a", "10.0.0.2 *")
    assert found.addresses(Name.from_text("x.a"), RRType.A) == [b"\n\0\0\1"]
    assert found.addresses(Name.from_text("y.x.a"), RRType.A) == []
    assert found.addresses(ROOT, RRType.A) == []


@pytest.mark.parametrize(
    ("text", "packed"),
    [
        ("10.0.0.1", b"\x0a\0\0\1"),
        ("::1", bytes(15) + b"\1"),
        ("::ffff:10.0.0.1", b"\x0a\0\0\1"),
        ("fe80::1%eth0", b"\xfe\x80" + bytes(13) + b"\1"),
        ("010.0.0.1", None),
        ("10.0.1", None),
        ("host", None),
        ("", None),
    ],
)
def test_parse_address(text: str, packed: bytes | None) -> None:
    assert parse_address(text) == packed


@pytest.mark.parametrize(
    ("qname", "packed"),
    [
        ("4.3.2.1.in-addr.arpa.", b"\1\2\3\4"),
        ("4.3.2.1.IN-ADDR.arpa.", b"\1\2\3\4"),
        (B6, b"\x20\x01\x0d\xb8" + bytes(11) + b"\2"),
        (B6.upper(), b"\x20\x01\x0d\xb8" + bytes(11) + b"\2"),
        ("3.2.1.in-addr.arpa.", None),
        ("5.4.3.2.1.in-addr.arpa.", None),
        ("04.3.2.1.in-addr.arpa.", None),
        ("x.3.2.1.in-addr.arpa.", None),
        ("in-addr.arpa.", None),
        (B6[2:], None),
        ("22" + B6[3:], None),
        ("g" + B6[1:], None),
        (r"\:" + B6[1:], None),
        ("arpa.", None),
        (".", None),
    ],
)
def test_reverse_to_packed(qname: str, packed: bytes | None) -> None:
    assert reverse_to_packed(Name.from_text(qname)) == packed


def test_a_table_without_lines_is_empty() -> None:
    assert len(HostsTable([], [ROOT])) == 0
