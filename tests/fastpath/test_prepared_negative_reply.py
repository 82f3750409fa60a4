"""Prepared negative replies are those that the table gives without them."""

import socket
import time
from random import Random

import pytest
from hypothesis import given

from hsdns.fastpath import _python
from hsdns.fastpath.prepared_negative_reply import MAX_PARENTS
from hsdns.fastpath.prepared_reply import PACE
from hsdns.wire.edns import Edns
from hsdns.wire.message import CD, RD, nxdomain
from tests import strategies
from tests.fastpath.servers import Server
from tests.fastpath.twins import TableUnderTest, addresses, ask, soa, to_wire

LABELS = (
    "web", "WEB", "gone", "default", "other", "svc", "SVC", "pod", "dns", "dns-version", "x" * 63, "excluded", "new", "a",
)  # fmt: skip
PARENTS = (
    "cluster.local.", "svc.cluster.local.", "default.svc.cluster.local.", "other.svc.cluster.local.",
    "web.default.svc.cluster.local.", "example.org.default.svc.cluster.local.", "org.cluster.local.",
    "pod.cluster.local.", "sub.cluster.local.", "excluded.cluster.local.", "example.org.", "DEFAULT.svc.cluster.local.",
    "a.web.default.svc.cluster.local.", "_new.web.default.svc.cluster.local.", "a.new.web.default.svc.cluster.local.",
    "_zone.web.default.svc.cluster.local.", "pin._zone.web.default.svc.cluster.local.", "other.svc.cluster.local.",
)  # fmt: skip
FORMS = (None, Edns(1232), Edns(512, do=True), Edns(1232, options=((10, b"12345678"),)))


def a_cluster(mark_ttl: int = 0, log: bool = False) -> TableUnderTest:
    """One Service, web in default; a namespace without any; a negative zone with template and one without below it."""
    under_test = TableUnderTest(_python)
    exclusions = (
        "excluded.other.svc.cluster.local.", "excluded.cluster.local.", "excluded.web.default.svc.cluster.local.",
    )  # fmt: skip
    under_test.add_negative_zone(
        exclusions=exclusions, mark_ttl=mark_ttl, log=log, max_payload=1000
    )
    under_test.add_negative_zone("sub.cluster.local.")
    under_test.names.add_namespace(b"default")
    under_test.names.add_namespace(b"other")
    under_test.names.add_service(b"default", b"web")
    under_test.names.add_labels(b"default", b"web", [b"\3web", b"\1a\3new"])
    assert under_test.set_template()
    return under_test


def draw(chance: Random) -> bytes:
    return ask(
        f"{chance.choice(LABELS)}.{chance.choice(PARENTS)}", chance.choice([1, 28, 16]), chance.randrange(65536),
        chance.choice([RD, RD, 0, CD]), chance.choice(FORMS),
    )  # fmt: skip


def change(chance: Random, under_test: TableUnderTest) -> None:
    """Do something after which other names exist."""
    names = under_test.names
    what = chance.randrange(7)
    if what == 0:
        names.serial = chance.randrange(1 << 32)
    elif what == 1:
        names.open = chance.random() < 0.8
    elif what == 2:
        method = chance.choice([names.add_service, names.remove_service])
        method(chance.choice([b"default", b"other"]), chance.choice([b"web", b"new", b"a"]))
    elif what == 3:
        chance.choice([names.add_namespace, names.remove_namespace])(chance.choice([b"default", b"other", b"a"]))  # fmt: skip
    elif what == 4:
        query = draw(chance)
        under_test.store(query, addresses(query), dependencies=[(1, under_test.versions.read(1))])
    elif what == 5:
        method = chance.choice([names.add_labels, names.remove_labels])
        method(b"default", b"web", [chance.choice([b"\3web", b"\3new", b"\1a\3new", b"\5_zone"])])
    else:
        under_test.versions.bump(1)


@given(strategies.seeds)
def test_any_names_and_changes(seed: int) -> None:
    chance, under_test = Random(seed), a_cluster()
    first = ask("gone.default.svc.cluster.local.")
    assert under_test.lookup(first) is not None
    assert under_test.table.negative_replies.answer(first) is not None
    for _ in range(200):
        if chance.random() < 0.1:
            change(chance, under_test)
        query = draw(chance)
        before = under_test.table.negative_replies.answer(query)
        found = under_test.table.answer(query, None, time.monotonic())
        for absent in (before, under_test.table.negative_replies.answer(query)):
            if absent is not None:
                head, question, tail, size, kind = absent
                assert found == (query[:2] + head + question + tail, kind)
                assert size == len(found[0])


@given(strategies.seeds)
def test_damaged_queries(seed: int) -> None:
    chance, under_test = Random(seed), a_cluster()
    query = ask("gone.default.svc.cluster.local.")
    assert under_test.lookup(query) is not None
    assert under_test.table.negative_replies.answer(query) is not None
    for at in (12, 13, chance.randrange(len(query))):
        for octets in (bytes((chance.randrange(256),)), b"", b"ab"):
            damaged = query[:at] + octets + query[at + 1 :]
            absent = under_test.table.negative_replies.answer(damaged)
            found = under_test.table.answer(damaged, None, 0.0)
            if absent is not None:
                assert found is not None
                assert found[0] == damaged[:2] + b"".join(absent[:3])
        assert under_test.table.negative_replies.answer(query[:at]) is None


def test_an_entry_takes_precedence() -> None:
    under_test, query = a_cluster(), ask("gone.default.svc.cluster.local.")
    for _ in range(3):
        assert under_test.lookup(query) == to_wire(query, nxdomain(soa(0)))
    assert under_test.table.negative_replies.answer(query) is not None
    assert under_test.store(query, addresses(query))
    assert under_test.table.negative_replies.answer(query) is None
    upper = ask("GONE.default.svc.cluster.local.")
    assert under_test.table.negative_replies.answer(upper) is None
    assert under_test.lookup(upper) == to_wire(upper, addresses(upper))


def test_a_name_that_comes_while_it_is_denied() -> None:
    """The store may be changed in another thread: what was found absent before is not prepared as absent after."""
    under_test = a_cluster()
    zone = under_test.table._negative_zones[0]
    query, find = ask("new.web.default.svc.cluster.local."), zone.find

    def find_and_change(key: bytes) -> int:
        kind: int = find(key)
        under_test.names.add_labels(b"default", b"web", [b"\3new"])
        return kind

    zone.find = find_and_change
    assert under_test.lookup(query) is not None
    zone.find = find
    assert under_test.table.negative_replies.answer(query) is None
    assert under_test.lookup(query) is None


def test_a_size_is_lowered_when_it_is_prepared() -> None:
    under_test = a_cluster()
    asked, lowered = (ask("gone.cluster.local.", edns=Edns(size)) for size in (4096, 1000))
    for _ in range(2):
        assert under_test.lookup(asked) == to_wire(lowered, nxdomain(soa(0)))
    head, question, tail, _, _ = under_test.table.negative_replies.answer(asked)
    assert asked[:2] + head + question + tail == to_wire(lowered, nxdomain(soa(0)))


def test_a_new_template_is_used() -> None:
    under_test, query = a_cluster(), ask("gone.cluster.local.")
    assert under_test.lookup(query) is not None
    assert len(under_test.table.negative_replies) == 1
    assert under_test.set_template()
    assert len(under_test.table.negative_replies) == 0
    assert under_test.lookup(query) is not None
    under_test.add_negative_zone("other.cluster.local.")
    assert under_test.table.negative_replies.answer(query) is None


def test_a_reply_that_must_be_cut_is_not_prepared() -> None:
    under_test = a_cluster()
    long = ".".join(["x" * 63] * 3) + ".cluster.local."
    query = ask(long, edns=Edns(512, options=()))
    for _ in range(3):
        found = under_test.lookup(query, 512)
        assert found == to_wire(query, nxdomain(soa(0)), 512)
    absent = under_test.table.negative_replies.answer(query)
    assert absent is None or absent[3] <= 512


def test_parents_are_bounded_and_then_few_are_made() -> None:
    under_test = a_cluster()
    parents = [f"p{number}.cluster.local." for number in range(2 * MAX_PARENTS)]
    for parent in parents:
        assert under_test.lookup(ask(f"x.{parent}")) is not None
    assert len(under_test.table.negative_replies) == MAX_PARENTS
    prepared = [
        each for each in parents if under_test.table.negative_replies.answer(ask(f"y.{each}"))
    ]
    assert len(prepared) >= MAX_PARENTS - 2 * MAX_PARENTS // PACE
    hot = ask("x.hot.cluster.local.")
    for _ in range(PACE):
        assert under_test.lookup(hot) is not None
    assert under_test.table.negative_replies.answer(hot) is not None
    assert len(under_test.table.negative_replies) == MAX_PARENTS


@pytest.mark.sockets
def test_over_udp(server: Server) -> None:
    """Random names below a few parents, in one batch with names that exist, while these change."""
    server.bind()
    client, under_test = server.client(), server.under_test
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
    under_test.add_negative_zone(log=True, mark_ttl=0, groups={1: 7})
    assert under_test.set_template()
    under_test.names.add_namespace(b"default")
    web = ask()
    assert under_test.store(web, addresses(web), group=8)
    hits = 0
    for step in range(12):
        under_test.names.serial = step // 3
        new = f"n{step}-1.default.svc.cluster.local."
        queries = [
            ask(f"n{step}-{number % 5}.{parent}", query_id=number, edns=edns)
            for number, parent in enumerate(
                ("cluster.local.", "default.svc.cluster.local.", "example.org.svc.cluster.local.", "DEFAULT.svc.cluster.local.") * 3
            )
            for edns in FORMS[:3]
        ]  # fmt: skip
        under_test.names.add_service(b"default", new.partition(".")[0].encode())
        asked = [query for query in queries if decode_name(query) != new]
        for query in [*asked, web]:
            client.send(query)
        assert server.serve() == []
        for query in asked:
            assert client.recv(65535) == to_wire(query, nxdomain(soa(step // 3)))
        assert client.recv(65535) == to_wire(web, addresses(web))
        hits += len(asked)
        assert under_test.table.statistics().negative_hits == hits
        assert [record.query for record in under_test.table.take_log(1000)] == asked
        misses = [query for query in queries if decode_name(query) == new]
        assert misses
        for query in misses:
            client.send(query)
        assert [query for query, _, _ in server.serve()] == misses
    cells = under_test.cells()
    assert {key: row[0] for key, row in cells.items()} == {(7, False): hits, (8, False): 12}
    assert cells[7, False][53:] == [0, hits]


def decode_name(query: bytes) -> str:
    """The QNAME as text, in lower case."""
    labels, at = [], 12
    while query[at]:
        labels.append(query[at + 1 : at + 1 + query[at]].decode().lower())
        at += 1 + query[at]
    return ".".join([*labels, ""])
