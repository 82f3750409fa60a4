"""Which queries are looked up, and which of them have the same key."""

from types import ModuleType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hsdns.fastpath.hit_counts import DO
from hsdns.fastpath.key import (
    HEADERS,
    KEY_CD,
    KEY_DO,
    KEY_EDNS,
    MAX_FORMS,
    VARIANT_FLAGS,
    PlainQuery,
    cut_query,
    read_query,
)
from hsdns.fastpath.records import BadRecords, cut, read_outline, walk
from hsdns.wire.decode import BadQuery, decode
from hsdns.wire.edns import Edns
from hsdns.wire.encode import encode_query, udp_limit
from hsdns.wire.message import CD, RD, Reply, nodata
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


@pytest.mark.parametrize(
    ("_name", "row"), columns(OCTETS, "queries that are looked up, and others")
)
def test_plain(twin: ModuleType, _name: str, row: str) -> None:
    kind, _, text = row.partition(" ")
    under_test, wire, plain = TableUnderTest(twin), wire_of(text), kind == "plain"
    assert under_test.lookup(wire) is None
    statistics = under_test.table.statistics()
    assert (statistics.misses, statistics.not_plain) == (int(plain), int(not plain))
    assert (read_query(wire) is not None) is plain
    if plain:
        agrees_with_decode(wire)


def agrees_with_decode(wire: bytes) -> None:
    """What read_query() takes apart is what decode() reads."""
    found, query = read_query(wire), decode(wire)
    assert isinstance(found, PlainQuery)
    assert found.qname == query.qname.lower
    assert (found.key[-3:-1], query.qclass, query.opcode) == (query.qtype.to_bytes(2, "big"), 1, 0)
    assert wire[12 : found.end] == query.question_wire
    form = found.form
    assert VARIANT_FLAGS[form.variant] == query.flags & (RD | CD)
    assert form.limit == udp_limit(query)
    edns = query.edns
    assert found.key[-1] == (
        (KEY_CD if query.flags & CD else 0)
        | (KEY_EDNS if edns else 0)
        | (KEY_DO if query.do else 0)
    )
    assert found.key[-1:] == form.tail
    assert form.do == (DO if query.do else 0)
    assert form.opt == (b"" if edns is None else edns.to_wire())
    found_cut = cut_query(wire)
    if found_cut is not None:
        assert found_cut == (found.end - 2 - len(wire), form)
    has_cookie = edns is not None and [(code, len(data)) for code, data in edns.options] == [
        (10, 8)
    ]
    if edns is None or not edns.options or has_cookie:
        assert found_cut is not None, "a query in this form was read just before"


@given(st.data())
def test_any_octets(data: st.DataObject) -> None:
    query = data.draw(strategies.queries())
    wire = encode_query(query, query.id)
    for octets in (wire, data.draw(strategies.damaged(wire))):
        found = read_query(octets)
        try:
            decode(octets)
        except BadQuery:
            assert found is None, "the table knows better than the decoder"
        if found is not None:
            agrees_with_decode(octets)
        if HAS_NATIVE:
            under_test = TableUnderTest(pytest.importorskip(NATIVE))
            assert under_test.lookup(octets) is None
            assert under_test.table.statistics().misses == int(found is not None)


@pytest.mark.parametrize(("_name", "row"), columns(OCTETS, "queries with the same key or not"))
def test_key(twin: ModuleType, _name: str, row: str) -> None:
    kind, _, text = row.partition(" ")
    stored, asked = map(wire_of, text.split("|"))
    under_test = TableUnderTest(twin)
    assert under_test.store(stored, addresses(stored))
    expected = to_wire(asked, addresses(asked)) if kind == "same" else None
    for _ in range(4):  # the Python twin prepares what it is asked for again
        assert under_test.lookup(stored) == to_wire(stored, addresses(stored))
        assert under_test.lookup(asked) == expected


def test_forms_are_bounded() -> None:
    for size in range(512, 512 + 3 * MAX_FORMS):
        query = ask(edns=Edns(size))
        plain, forms = read_query(query), HEADERS[query[2:12]].forms
        assert plain is not None
        assert plain.form.limit == size
        assert forms[query[-13:]] == plain.form
        assert len(forms) <= MAX_FORMS


# Which replies may be stored.

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
