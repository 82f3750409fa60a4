"""Addresses from text to octets and to labels.

Reverse names and the index behind them.
"""

from ipaddress import IPv4Address, IPv6Address, ip_address
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hsdns.cluster.address import address_of, pack_address, read_address, reverse_name
from hsdns.cluster.freshness import NoCounters
from hsdns.cluster.history import Replaced
from hsdns.cluster.services import ReverseIndex
from hsdns.wire.name import Name
from tests.support.cluster.reverse_index import owners_by_address
from tests.support.tables import columns

TABLES = Path(__file__).with_name("tables.txt")


@pytest.mark.parametrize(("text", "expected"), columns(TABLES, "addresses"))
def test_pack_address(text: str, expected: str) -> None:
    packed = pack_address(text)
    assert str(packed and ip_address(packed)) == expected


@given(st.ip_addresses())
def test_addresses_are_read_as_module_ipaddress_reads_them(
    found: IPv4Address | IPv6Address,
) -> None:
    mapped = getattr(found, "ipv4_mapped", None)
    assert read_address(str(found)) == ((mapped or found).packed, mapped is None)
    assert pack_address(found.exploded) == (mapped or found).packed


@pytest.mark.parametrize(("qname", "expected"), columns(TABLES, "reverse names"))
def test_address_of(qname: str, expected: str) -> None:
    packed = address_of(Name.from_text(qname))
    assert str(packed and ip_address(packed)) == expected


@given(st.ip_addresses())
def test_every_complete_reverse_name_is_read(address: object) -> None:
    name = Name.from_text(ip_address(str(address)).reverse_pointer)
    assert address_of(name) == pack_address(str(address))
    packed = address_of(name)
    assert packed is not None
    assert address_of(reverse_name(packed)) == packed


OWNERS = st.sampled_from([(b"a",), (b"b",), (b"c",)])
STEPS = st.lists(st.tuples(st.booleans(), st.sampled_from([b"\1\2\3\4", b"\5\6\7\10"]), OWNERS))


@given(STEPS)
def test_the_index_is_a_set_of_owners_for_each_address(
    steps: list[tuple[bool, bytes, tuple[bytes]]],
) -> None:
    index: ReverseIndex[tuple[bytes]] = ReverseIndex(Replaced())
    model: dict[bytes, list[tuple[bytes]]] = {}
    for adds, address, owner in steps:
        known = model.setdefault(address, [])
        if adds:
            index.move((), [address], owner, NoCounters())
            if owner not in known:
                known.append(owner)
        else:
            index.move([address], (), owner, NoCounters())
            if owner in known:
                known.remove(owner)
    for address, owners in model.items():
        assert index.lookup(address) == tuple(owners)
    assert len(index.addresses()) == sum(bool(owners) for owners in model.values())
    assert owners_by_address(index) == {
        address: frozenset(owners) for address, owners in model.items() if owners
    }
