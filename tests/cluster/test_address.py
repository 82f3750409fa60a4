"""Addresses from text to octets and to labels.

Reverse names and the index behind them.
"""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address, ip_address
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from hsdns.cluster.address import address_of, pack_address, read_address, reverse_name
from hsdns.cluster.freshness import NoCounters
from hsdns.cluster.history import Replaced
from hsdns.cluster.objects import Object, Selector
from hsdns.cluster.services import ReverseIndex
from hsdns.cluster.source import OTHER_PODS, Lead, ObjectIndex
from hsdns.wire.name import Name
from tests.support.cluster.explained import named_pod
from tests.support.cluster.objects import endpoint_slice, namespace, service
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


# Label selectors.
#
# What a question leads to, among objects in memory.


@pytest.mark.parametrize(("row", "selected"), columns(TABLES, "selectors"))
def test_matches(row: str, selected: str) -> None:
    text, _, words = row.rpartition(" of ")
    labels = dict(word.split("=") for word in words.split(",") if "=" in word)
    found = Selector.from_text(text).matches(None if words == "nothing" else labels)
    assert str(found) == selected


@pytest.mark.parametrize(
    "text", ["", "=", "app=web,", ",app", "app in web", "app in (a", "a b", "!"]
)
def test_from_text_refuses(text: str) -> None:
    with pytest.raises(ValueError, match="is not a label selector"):
        Selector.from_text(text)


@pytest.mark.parametrize(("text", "written"), columns(TABLES, "how selectors are written"))
def test_is_written_as_the_api_reads_it(text: str, written: str) -> None:
    selector = Selector.from_text(text)
    assert str(selector) == written
    assert Selector.from_text(written) == selector


DB = structs.replace(service("shop/db"), spec=structs.replace(service("shop/db").spec, selector={"app": "db"}))  # fmt: skip
LOST = structs.replace(DB, metadata=structs.replace(DB.metadata, name="lost"), spec=structs.replace(DB.spec, selector={"app": "x"}))  # fmt: skip
OBJECTS: list[Object] = [
    namespace("shop"),
    namespace("other"),
    DB,
    LOST,
    service("shop/web", "10.96.0.1"),
    endpoint_slice("shop/db-1", "db", "10.0.0.1 pod=named ready=false"),
    named_pod("shop/db-0", "10.0.0.3", labels={"app": "db"}),
    named_pod("shop/named", "10.0.0.1", labels={"app": "else"}),
    named_pod("other/y", "10.0.0.4", labels={"app": "db"}),
]


@pytest.mark.parametrize(
    ("lead", "names"),
    [
        (Lead((b"shop",), ((b"shop", b"db"),)), ["db", "db-0", "db-1", "named", "shop"]),
        (Lead((b"shop",), ((b"shop", b"web"),)), ["shop", "web"]),
        (Lead((b"shop",), ((b"shop", b"lost"),)), ["db-0", "lost", "named", "shop"]),
        (Lead((b"none",), ((b"none", b"db"),)), []),
        (Lead(address="10.0.0.1"), ["db", "db-0", "db-1", "named", "shop"]),
        (Lead(address="10.0.0.4"), ["y"]),
        (Lead(pod="db"), ["db-0"]),
        (Lead(), []),
    ],
)
def test_a_lead(lead: Lead, names: list[str]) -> None:
    found = ObjectIndex(OBJECTS).find(lead)
    assert sorted(each.metadata.name for each in found) == names


def test_where_a_selector_matches_none_some_pods_are_given() -> None:
    pods = [named_pod(f"shop/p{number}", labels={"app": "y"}) for number in range(OTHER_PODS + 9)]
    found = ObjectIndex([LOST, *pods]).find(Lead(services=((b"shop", b"lost"),)))
    assert len(found) == 1 + OTHER_PODS
