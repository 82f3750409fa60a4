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
from hsdns.wire.message import AD, CD, RD
from tests import strategies
from tests.fastpath.twins import HAS_NATIVE, NATIVE, TableUnderTest, addresses, ask, to_wire

PLAIN = ask()
EDNS = ask(edns=Edns(1232))
OPT = EDNS[len(PLAIN) :]


def option(code: int, data: bytes) -> bytes:
    return code.to_bytes(2, "big") + len(data).to_bytes(2, "big") + data


def with_options(data: bytes, length: int | None = None) -> bytes:
    length = len(data) if length is None else length
    return EDNS[:-2] + length.to_bytes(2, "big") + data


def changed(query: bytes, at: int, octets: bytes) -> bytes:
    return query[:at] + octets + query[at + len(octets) :]


def named(name: bytes) -> bytes:
    return PLAIN[:12] + name + b"\0\1\0\1"


END = len(PLAIN)
PLAIN_QUERIES = {
    "plain": PLAIN,
    "no flags": ask(flags=0),
    "RD, CD and AD": ask(flags=RD | CD | AD),
    "upper case": ask("WEB.Default.svc.cluster.LOCAL."),
    "one label": ask("local."),
    "one octet": named(b"\1a\0"),
    "127 labels": named(b"\1a" * 127 + b"\0"),
    "255 octets": named((b"\x3f" + b"x" * 63) * 3 + b"\x3d" + b"y" * 61 + b"\0"),
    "octets of zero in a label": named(b"\3a\0b\5local\0"),
    "letters as lengths": named(b"\x3f" + b"A" * 63 + b"\0"),
    "any type": ask(qtype=65535),
    "EDNS": EDNS,
    "DO": ask(edns=Edns(1232, do=True)),
    "payload size 0": ask(edns=Edns(0)),
    "a cookie": with_options(option(10, b"12345678")),
    "a cookie with the server's part": with_options(option(10, bytes(24))),
    "a cookie and padding": with_options(option(10, b"12345678") + option(12, bytes(9))),
    "another option of a cookie's length": with_options(option(8, b"12345678")),
    "an empty option": with_options(option(3, b"")),
    "16 options": with_options(option(65001, b"x") * 16),
    "512 octets": with_options(option(12, bytes(512 - len(EDNS) - 4))),
}
NOT_PLAIN = {
    "nothing": b"",
    "a header": PLAIN[:12],
    "16 octets": PLAIN[:16],
    "a response": changed(PLAIN, 2, b"\x81"),
    "NOTIFY": changed(PLAIN, 2, b"\x21"),
    "AA": changed(PLAIN, 2, b"\x05"),
    "TC": changed(PLAIN, 2, b"\x03"),
    "RA": changed(PLAIN, 3, b"\x80"),
    "Z": changed(PLAIN, 3, b"\x40"),
    "an RCODE": changed(PLAIN, 3, b"\x01"),
    "no question": changed(PLAIN, 4, b"\0\0"),
    "two questions": changed(PLAIN, 4, b"\0\2"),
    "256 questions": changed(PLAIN, 4, b"\1\1"),
    "an answer": changed(PLAIN, 6, b"\0\1"),
    "an authority": changed(PLAIN, 8, b"\0\1"),
    "two additional": changed(EDNS, 10, b"\0\2"),
    "256 additional": changed(EDNS, 10, b"\1\1"),
    "the root": named(b"\0"),
    "a pointer": named(b"\3web\xc0\x0c"),
    "a label of 64": named(b"\x40" + b"x" * 64 + b"\0"),
    "256 octets": named((b"\x3f" + b"x" * 63) * 3 + b"\x3e" + b"y" * 62 + b"\0"),
    "128 labels": named(b"\1a" * 128 + b"\0"),
    "a name without end": PLAIN[:30],
    "no type": PLAIN[:-4],
    "half a class": PLAIN[:-1],
    "class CH": changed(PLAIN, END - 2, b"\0\3"),
    "class ANY": changed(PLAIN, END - 2, b"\0\xff"),
    "an octet behind": PLAIN + b"\0",
    "OPT not counted": PLAIN + OPT,
    "OPT missing": changed(PLAIN, 11, b"\1"),
    "an octet behind OPT": EDNS + b"\0",
    "OPT with an owner": EDNS[:END] + b"\1a" + OPT,
    "not OPT but A": changed(EDNS, END + 1, b"\0\1"),
    "extended RCODE": changed(EDNS, END + 5, b"\1"),
    "EDNS version 1": changed(EDNS, END + 6, b"\1"),
    "a flag of EDNS": changed(EDNS, END + 8, b"\1"),
    "DO and another flag": changed(EDNS, END + 7, b"\xc0"),
    "RDATA too short": with_options(option(10, b"12345678"), 11),
    "RDATA too long": with_options(option(10, b"12345678"), 13),
    "a cookie longer than RDATA": with_options(b"\0\x0a\0\x08" + b"1234567"),
    "half an option": with_options(b"\0\x0a\0"),
    "an option longer than RDATA": with_options(b"\0\x0a\0\x09" + b"12345678"),
    "17 options": with_options(option(65001, b"x") * 17),
    "513 octets": with_options(option(12, bytes(513 - len(EDNS) - 4))),
    "half an OPT": EDNS[:-1],
}  # fmt: skip
ROWS = [(wire, True) for wire in PLAIN_QUERIES.values()] + [
    (wire, False) for wire in NOT_PLAIN.values()
]


@pytest.mark.parametrize(("wire", "plain"), ROWS, ids=[*PLAIN_QUERIES, *NOT_PLAIN])
def test_plain(twin: ModuleType, wire: bytes, plain: bool) -> None:
    under_test = TableUnderTest(twin)
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


HTTPS = ask(qtype=65)
SAME = {
    "another ID": (PLAIN, ask(query_id=65535)),
    "no RD": (PLAIN, ask(flags=0)),
    "AD": (PLAIN, ask(flags=RD | AD)),
    "mixed case": (PLAIN, ask("wEb.DEFAULT.svc.Cluster.local.")),
    "stored in upper case": (ask("WEB.DEFAULT.SVC.CLUSTER.LOCAL."), PLAIN),
    "another payload size": (EDNS, ask(edns=Edns(512))),
    "a cookie more": (EDNS, with_options(option(10, b"12345678"))),
    "unknown options": (with_options(option(65001, b"xy") * 3), EDNS),
}
DIFFERENT = {
    "another name": (PLAIN, ask("wec.default.svc.cluster.local.")),
    "a label less": (PLAIN, ask("default.svc.cluster.local.")),
    "labels that are cut otherwise": (named(b"\3a\1b\0"), named(b"\1a\1b\0")),
    "another type": (PLAIN, ask(qtype=28)),
    "a type that differs in case": (HTTPS, ask(qtype=97)),
    "a name that differs in more than ASCII case": (named(b"\1\xe4\0"), named(b"\1\xc4\0")),
    "CD": (PLAIN, ask(flags=RD | CD)),
    "EDNS": (PLAIN, EDNS),
    "no EDNS": (EDNS, PLAIN),
    "DO": (EDNS, ask(edns=Edns(1232, do=True))),
}
PAIRS = [(*pair, True) for pair in SAME.values()] + [(*pair, False) for pair in DIFFERENT.values()]


@pytest.mark.parametrize(("stored", "asked", "is_same"), PAIRS, ids=[*SAME, *DIFFERENT])
def test_key(twin: ModuleType, stored: bytes, asked: bytes, is_same: bool) -> None:
    under_test = TableUnderTest(twin)
    assert under_test.store(stored, addresses(stored))
    expected = to_wire(asked, addresses(asked)) if is_same else None
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
