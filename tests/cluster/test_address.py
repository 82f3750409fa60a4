"""Addresses from text to octets and to labels."""

from ipaddress import IPv4Address, IPv6Address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hsdns.cluster.address import pack_address, read_address


@pytest.mark.parametrize(
    ("text", "packed"),
    [
        ("10.0.0.1", b"\n\0\0\1"),
        ("010.0.0.1", None),
        ("::ffff:10.0.0.1", b"\n\0\0\1"),
        ("fd00::1", b"\xfd" + bytes(14) + b"\1"),
        ("fe80::1%eth0", None),
        ("", None),
        ("None", None),
        ("1.2.3", None),
        ("1.2.3.4.5", None),
        ("1.2.3.256", None),
        ("1.2.3.+4", None),
        ("1.2.3.\u0664", None),
        ("255.0.10.1", b"\xff\0\n\1"),
        ("::1.2.3.4", bytes(12) + b"\1\2\3\4"),
    ],
)
def test_pack_address(text: str, packed: bytes | None) -> None:
    assert pack_address(text) == packed


@given(st.ip_addresses())
def test_addresses_are_read_as_module_ipaddress_reads_them(
    found: IPv4Address | IPv6Address,
) -> None:
    mapped = getattr(found, "ipv4_mapped", None)
    assert read_address(str(found)) == ((mapped or found).packed, mapped is None)
    assert pack_address(found.exploded) == (mapped or found).packed
