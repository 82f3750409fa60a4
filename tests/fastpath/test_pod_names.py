"""Names of Pods, answered in the form of one reply."""

from types import ModuleType

import pytest

from hsdns.wire.decode import decode
from hsdns.wire.edns import Edns
from hsdns.wire.encode import reply_size
from hsdns.wire.message import RR, Reply, nodata
from hsdns.wire.name import Name
from tests.fastpath.twins import TableUnderTest, ask, soa, to_wire

FIRST = "10-0-0-9.default.pod.cluster.local."
OTHER = "1-2-3-4.default.pod.cluster.local."


def table_with_form(twin: ModuleType, *, mark_ttl: int = -1, log: bool = False) -> TableUnderTest:
    """A negative zone without template, with the form of answers and of NODATA for AAAA."""
    under_test = TableUnderTest(twin)
    under_test.add_negative_zone(
        ("cluster.local."), ("excluded.default.pod.cluster.local.",), log=log
    )
    under_test.names.add_namespace(b"default")
    assert under_test.set_pod_form(mark_ttl=mark_ttl)
    assert under_test.set_pod_form(qtype=28, has_answer=False, group=8, mark_ttl=mark_ttl)
    return under_test


def answer(query: bytes, address: bytes = bytes((1, 2, 3, 4))) -> bytes:
    qname = decode(query).qname
    return to_wire(query, Reply(answer=(RR(qname, 1, 30, address),), aa=True))


@pytest.mark.parametrize("edns", [None, Edns(1232, do=True)])
def test_both_forms(twin: ModuleType, edns: Edns | None) -> None:
    under_test = table_with_form(twin)
    under_test.names.serial = 99
    for text in (OTHER, OTHER.upper(), f"a.b.{OTHER}"):
        query = ask(text, edns=edns)
        assert under_test.lookup(query) == answer(query)
        query = ask(text, 28, edns=edns)
        assert under_test.lookup(query) == to_wire(query, nodata(soa(99)))
    statistics = under_test.table.statistics()
    assert (statistics.hits, statistics.negative_hits, statistics.entries) == (6, 0, 0)


def test_what_is_left_to_the_chain(twin: ModuleType) -> None:
    under_test = table_with_form(twin)
    others = [
        ask("fd00--1.default.pod.cluster.local.", 28),  # no form yet
        ask("fd00--1.default.pod.cluster.local."),  # nor this one
        ask(OTHER, 16),
        ask("1-2-3-4.other.pod.cluster.local."),  # could be denied, without a template is not
        ask("1-2-3-4.excluded.default.pod.cluster.local."),
        ask("1-2-3-04.default.pod.cluster.local."),
        ask("1-2-3-4.pod.cluster.local."),
        ask("1-2-3-4.default.svc.cluster.local."),
    ]
    for query in others:
        assert under_test.lookup(query) is None
    under_test.names.open = False
    assert under_test.lookup(ask(OTHER)) is None
    under_test.names.open = True
    assert under_test.lookup(ask(OTHER)) is not None
    under_test.names.remove_namespace(b"default")
    assert under_test.lookup(ask(OTHER)) is None


def test_an_entry_takes_precedence(twin: ModuleType) -> None:
    under_test, query = table_with_form(twin), ask(OTHER)
    stored = Reply(answer=(RR(Name.from_text(OTHER), 1, 5, bytes((9, 9, 9, 9))),), aa=True)
    assert under_test.store(query, stored)
    assert under_test.lookup(query) == to_wire(query, stored)


@pytest.mark.parametrize(("mark_ttl", "misses"), [(0, 1), (-1, 0)])
def test_counting(twin: ModuleType, mark_ttl: int, misses: int) -> None:
    under_test = table_with_form(twin, mark_ttl=mark_ttl, log=True)
    for qtype, group, answers in ((1, 7, 1), (28, 8, 0)):
        query = ask(OTHER, qtype)
        sent = under_test.lookup(query)
        assert sent is not None
        [((found, is_tcp), cells)] = under_test.cells().items()
        assert (found, is_tcp, cells[0], cells[18]) == (group, True, 1, len(query))
        reply = (nodata(soa()), Reply(answer=(RR(Name.from_text(OTHER), 1, 30, bytes(4)),)))[
            answers
        ]
        assert cells[34] == reply_size(decode(query), reply)
        assert (cells[53], cells[54]) == (0, misses)
        [record] = under_test.table.take_log(10)
        assert (record.query, record.answers, record.size) == (query, answers, cells[34])


QUERY = ask(FIRST)
ADDRESS = RR(Name.from_text(FIRST), 1, 30, bytes((10, 0, 0, 9)))
REFUSED = {
    "another address": (QUERY, Reply(answer=(ADDRESS._replace(rdata=bytes((10, 0, 0, 8))),)), 0),
    "two addresses": (QUERY, Reply(answer=(ADDRESS, ADDRESS._replace(rdata=bytes(4)))), 0),
    "another owner": (QUERY, Reply(answer=(ADDRESS._replace(owner=Name.from_text(OTHER)),)), 0),
    "another type": (QUERY, Reply(answer=(ADDRESS._replace(rrtype=16),)), 0),
    "another class": (QUERY, Reply(answer=(ADDRESS._replace(rrclass=3),)), 0),
    "more than the address": (QUERY, Reply(answer=(ADDRESS,), additional=(soa(),)), 0),
    "another rcode": (QUERY, Reply(answer=(ADDRESS,), rcode=3), 0),
    "another size": (QUERY, Reply(answer=(ADDRESS,)), 1),
    "no data": (QUERY, nodata(soa()), 0),
    "no address": (ask("web.default.pod.cluster.local."), Reply(answer=(ADDRESS,)), 0),
    "a name outside": (ask("10-0-0-9.default.pod.org."), Reply(answer=(ADDRESS,)), 0),
}


@pytest.mark.parametrize(("query", "reply", "more"), REFUSED.values(), ids=REFUSED)
def test_form_is_refused(twin: ModuleType, query: bytes, reply: Reply, more: int) -> None:
    under_test = TableUnderTest(twin)
    under_test.add_negative_zone()
    under_test.names.add_namespace(b"default")
    size = reply_size(decode(query), reply) + more
    assert not under_test.table.set_pod_form(0, query, to_wire(query, reply), size, 7, -1)
    assert under_test.lookup(query) is None
    assert under_test.set_pod_form()
    assert under_test.lookup(QUERY) == answer(QUERY, bytes((10, 0, 0, 9)))
