"""Which replies may be stored."""

from types import ModuleType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hsdns.fastpath.key import read_query
from hsdns.fastpath.records import BadRecords, cut, read_outline, walk
from hsdns.wire.edns import Edns
from hsdns.wire.iana import Rcode
from hsdns.wire.message import RR, Reply, nodata, nxdomain, unwritten
from hsdns.wire.name import Name
from tests import strategies
from tests.fastpath.twins import (
    HAS_NATIVE,
    NATIVE,
    WEB,
    TableUnderTest,
    addresses,
    ask,
    soa,
    to_wire,
)

QUERY = ask()
EDNS = ask(edns=Edns(1232))
GOOD = to_wire(QUERY, addresses(QUERY, 2))
WITH_OPT = to_wire(EDNS, addresses(EDNS))
NEGATIVE = to_wire(QUERY, nodata(soa()))
END = len(QUERY)  # where the first record starts
A = RR(Name.from_text(WEB), 1, 5, b"abcd")


def changed(wire: bytes, at: int, octets: bytes) -> bytes:
    return wire[:at] + octets + wire[at + len(octets) :]


def padded(length: int) -> bytes:
    """A reply of so many octets."""
    step = len(to_wire(QUERY, Reply(answer=(A._replace(rrtype=65280, rdata=b""),)))) - END
    return to_wire(
        QUERY, Reply(answer=(A._replace(rrtype=65280, rdata=bytes(length - END - step)),))
    )


# Two names of one octet and 19 of the numbers' 20, of a type that is not examined.
UNKNOWN = to_wire(QUERY, Reply(answer=(A._replace(rrtype=65280, rdata=bytes(21)),)))

TAKEN: dict[str, tuple[bytes, bytes]] = {
    "addresses": (QUERY, GOOD),
    "OPT is taken off": (EDNS, WITH_OPT),
    "NXDOMAIN": (QUERY, to_wire(QUERY, nxdomain(soa()))),
    "no data": (QUERY, NEGATIVE),
    "no record": (QUERY, to_wire(QUERY, Reply())),
    "RA and AD": (QUERY, to_wire(QUERY, addresses(QUERY).replace(ra=True, ad=True))),
    "another ID": (QUERY, changed(GOOD, 0, b"\xff\xff")),
    "an unknown type": (QUERY, UNKNOWN),
    "16,384 octets": (QUERY, padded(16384)),
    "SERVFAIL": (QUERY, to_wire(QUERY, unwritten(Rcode.SERVFAIL))),
    "NOTIMP": (QUERY, to_wire(QUERY, unwritten(Rcode.NOTIMP))),
}
REFUSED: dict[str, tuple[bytes, bytes]] = {
    "a query that is not plain": (ask("."), to_wire(ask("."), Reply())),
    "a query": (QUERY, QUERY),
    "nothing": (QUERY, b""),
    "a header": (QUERY, GOOD[:12]),
    "NOTIFY": (QUERY, changed(GOOD, 2, b"\xa4")),
    "TC": (QUERY, to_wire(QUERY, addresses(QUERY).replace(tc=True))),
    "REFUSED": (QUERY, to_wire(QUERY, unwritten(Rcode.REFUSED))),
    "extended RCODE": (EDNS, changed(WITH_OPT, len(WITH_OPT) - 6, b"\1")),
    "no question": (QUERY, changed(GOOD, 4, b"\0\0")),
    "two questions": (QUERY, changed(GOOD, 4, b"\0\2")),
    "the question in another case": (QUERY, changed(GOOD, 13, b"W")),
    "another type": (QUERY, changed(GOOD, END - 4, b"\0\x1c")),
    "another class": (QUERY, changed(GOOD, END - 2, b"\0\3")),
    "half a record": (QUERY, GOOD[:-1]),
    "a record less than counted": (QUERY, changed(GOOD, 6, b"\0\3")),
    "a record more than counted": (QUERY, changed(GOOD, 6, b"\0\1")),
    "an octet behind": (QUERY, GOOD + b"\0"),
    "an owner that points at itself": (QUERY, changed(GOOD, END, b"\xc0" + bytes([END]))),
    "an owner that points into the header": (QUERY, changed(GOOD, END, b"\xc0\x04")),
    "an owner that points behind": (QUERY, changed(GOOD, END, b"\xff\xff")),
    "an owner that is none": (QUERY, changed(GOOD, END, b"\x80")),
    "OPT in the middle": (
        EDNS,
        changed(WITH_OPT, 10, b"\0\2") + WITH_OPT[END : len(WITH_OPT) - 11],
    ),
    "two OPT": (EDNS, changed(WITH_OPT, 10, b"\0\2") + WITH_OPT[-11:]),
    "OPT with an owner": (EDNS, WITH_OPT[:-11] + b"\xc0\x0c" + WITH_OPT[-10:]),
    "OPT as an answer": (
        EDNS,
        changed(changed(WITH_OPT, 6, b"\0\2"), 10, b"\0\0"),
    ),
    "SOA without numbers": (QUERY, changed(UNKNOWN, END + 2, b"\0\6")),
    "16,385 octets": (QUERY, padded(16385)),
}  # fmt: skip
ROWS = [(*row, True) for row in TAKEN.values()] + [(*row, False) for row in REFUSED.values()]


@pytest.mark.parametrize(("query", "reply", "taken"), ROWS, ids=[*TAKEN, *REFUSED])
def test_reply(twin: ModuleType, query: bytes, reply: bytes, taken: bool) -> None:
    under_test = TableUnderTest(twin)
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
        assert cut(outline.records, outline.counts, 65535) == (
            len(outline.records),
            outline.counts,
        )
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
