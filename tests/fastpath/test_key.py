"""Which queries are looked up, and which of them have the same key."""

from types import ModuleType

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
from hsdns.wire.decode import BadQuery, decode
from hsdns.wire.edns import Edns
from hsdns.wire.encode import encode_query, udp_limit
from hsdns.wire.message import CD, RD
from tests import strategies
from tests.fastpath.twins import (
    HAS_NATIVE,
    NATIVE,
    OCTETS,
    TableUnderTest,
    addresses,
    ask,
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
    assert (found.qtype, query.qclass, query.opcode) == (query.qtype, 1, 0)
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
