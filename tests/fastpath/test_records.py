"""Which replies may be stored."""

from types import ModuleType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hsdns.fastpath.key import read_query
from hsdns.fastpath.records import BadRecords, cut, read_outline, walk
from hsdns.wire.edns import Edns
from hsdns.wire.message import Reply, nodata
from tests import strategies
from tests.fastpath.twins import (
    HAS_NATIVE,
    NATIVE,
    OCTETS,
    TableUnderTest,
    addresses,
    ask,
    soa,
    to_wire,
    wire_of,
)
from tests.support.tables import columns

QUERY = ask()
EDNS = ask(edns=Edns(1232))
GOOD = to_wire(QUERY, addresses(QUERY, 2))
NEGATIVE = to_wire(QUERY, nodata(soa()))


@pytest.mark.parametrize(("_name", "row"), columns(OCTETS, "replies that are stored or not"))
def test_reply(twin: ModuleType, _name: str, row: str) -> None:
    kind, _, text = row.partition(" ")
    query, reply = map(wire_of, text.split("|"))
    under_test, taken = TableUnderTest(twin), kind == "taken"
    assert under_test.store(query, reply, size=100) is taken
    statistics = under_test.table.statistics()
    assert (statistics.stored, statistics.refused, statistics.entries) == (taken, not taken, taken)
    assert (under_test.lookup(query) is not None) is taken


NINE = [(index, 0) for index in range(10, 19)]
TERMS: dict[str, tuple[bytes, dict[str, Any], bool]] = {
    "8 dependencies": (GOOD, {"dependencies": NINE[:8]}, True),
    "9 dependencies": (GOOD, {"dependencies": NINE}, False),
    "a pair of a moved counter": (GOOD, {"dependencies": [(1, 0), (5, 0)]}, False),
    "a pair of its new value": (GOOD, {"dependencies": [(1, 0), (5, 1)]}, True),
    "a pair of a later value": (GOOD, {"dependencies": [(5, 2)]}, False),
    "an index modulo": (GOOD, {"dependencies": [(65536 + 5, 1)]}, True),
    "no names and no SOA": (GOOD, {"names": None}, True),
    "no names and a SOA": (NEGATIVE, {"names": None}, False),
    "rotation of what cannot": (NEGATIVE, {"rotate": True}, True),
}


@pytest.mark.parametrize(("reply", "terms", "taken"), TERMS.values(), ids=TERMS)
def test_terms(twin: ModuleType, reply: bytes, terms: dict[str, Any], taken: bool) -> None:
    under_test = TableUnderTest(twin)
    under_test.versions.bump(5)
    assert under_test.store(QUERY, reply, **terms) is taken


@given(st.data())
def test_any_reply(data: st.DataObject) -> None:
    """Nothing that is damaged raises, and both twins take the same."""
    reply = Reply(
        answer=data.draw(strategies.sections),
        authority=data.draw(strategies.sections),
        additional=data.draw(strategies.sections),
    )
    wire = data.draw(strategies.damaged(to_wire(EDNS, reply)))
    plain = read_query(EDNS)
    assert plain is not None
    outline = read_outline(EDNS[12 : plain.end], wire)
    if outline is not None:
        assert cut(outline.records, outline.counts, 65535) == (len(outline.records), outline.counts)
    if HAS_NATIVE:
        under_test = TableUnderTest(pytest.importorskip(NATIVE))
        assert under_test.store(EDNS, wire) is (outline is not None)


@pytest.mark.parametrize(
    "wire",
    [b"", b"\3ab", b"\xc0", b"\x40", b"\x3f" + bytes(62), b"\1a" * 127 + b"\1a\0"],
    ids=["nothing", "half a label", "half a pointer", "no label", "cut", "too long"],
)
def test_octets_that_are_no_name(wire: bytes) -> None:
    with pytest.raises(BadRecords):
        list(walk(wire, 0, 1))
