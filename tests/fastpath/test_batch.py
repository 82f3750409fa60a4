"""Datagrams over real sockets on loopback, on every kind of batch; what arrives there has arrived when sendto returns."""

import errno
import os
import socket

import pytest

from hsdns.fastpath.control import write_address
from hsdns.fastpath.hit_counts import CELL_DO, CELL_REQUEST_SUM
from hsdns.wire.edns import Edns
from hsdns.wire.message import TC, nodata, nxdomain
from tests.fastpath.servers import DEADLINE, Server
from tests.fastpath.twins import addresses, ask, soa, to_wire

pytestmark = pytest.mark.sockets


def test_hits_are_answered_and_misses_returned(server: Server) -> None:
    server.bind()
    hit, missing, not_plain = ask(query_id=1), ask("x.org.", query_id=2), b"not a query"
    server.under_test.store(hit, addresses(hit), group=3)
    clients = [server.client() for _ in range(3)]
    sent = [hit, missing, b"", hit, not_plain, hit, hit]
    for index, query in enumerate(sent):
        clients[index % 3].send(query[:1] + bytes([index]) + query[2:] if query == hit else query)
    misses = server.serve()
    assert [query for query, _, _ in misses] == [missing, b"", not_plain]
    for index in (0, 3, 5, 6):
        reply = to_wire(ask(query_id=index), addresses(hit))
        assert clients[index % 3].recv(65535) == reply
    assert [address for _, address, _ in misses] == [
        write_address(socket.AF_INET, clients[index % 3].getsockname()) for index in (1, 2, 4)
    ]
    assert {control for _, _, control in misses} == {b""}
    server.batch.send(
        [(b"the answer to " + query, address, control) for query, address, control in misses]
    )
    for index in (1, 2, 4):
        assert clients[index % 3].recv(65535) == b"the answer to " + sent[index]
    assert server.batch.statistics()._asdict() == {
        "received": 7,
        "sent": 7,
        "batches": 1,
        "send_errors": {},
    }
    [((group, is_tcp), cells)] = server.under_test.cells().items()
    assert (group, is_tcp, cells[0], cells[1], sum(cells[35:52])) == (3, False, 4, 0, 4)


def test_no_datagrams(server: Server) -> None:
    server.bind()
    assert server.serve() == []
    assert server.batch.serve(None) == []
    server.batch.send([])
    assert server.batch.statistics()._asdict() == {
        "received": 0,
        "sent": 0,
        "batches": 0,
        "send_errors": {},
    }


def test_without_a_table_everything_is_a_miss(server: Server) -> None:
    server.bind()
    client = server.client()
    client.send(ask())
    [(query, address, control)] = server.batch.serve(None)
    assert query == ask()
    server.batch.send([(b"reply", address, control)])
    assert client.recv(100) == b"reply"


def test_more_than_a_batch(server: Server) -> None:
    server.bind()
    server.under_test.store(ask(), addresses(ask()))
    client = server.client()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
    for number in range(150):
        client.send(ask(query_id=number) if number % 3 else ask("x.org.", query_id=number))
    misses = [miss for _ in range(3) for miss in server.serve()]
    assert server.serve() == []
    assert [query for query, _, _ in misses] == [
        ask("x.org.", query_id=number) for number in range(0, 150, 3)
    ]
    found = [client.recv(65535) for _ in range(100)]
    assert found == [
        to_wire(ask(query_id=number), addresses(ask())) for number in range(150) if number % 3
    ]
    statistics = server.batch.statistics()
    assert (statistics.received, statistics.sent, statistics.batches) == (150, 100, 3)
    server.batch.send([(number.to_bytes(2, "big"), *misses[0][1:]) for number in range(130)])
    assert [int.from_bytes(client.recv(10), "big") for _ in range(130)] == list(range(130))


def test_a_query_longer_than_a_slot_is_a_truncated_miss(server: Server) -> None:
    server.bind()
    client = server.client()
    for length in (512, 513, 4096, 4097, 9000):
        client.send(bytes(length))
    assert [len(query) for query, _, _ in server.serve()] == [512, 513, 4096, 4097, 4097]
    assert server.under_test.table.statistics().not_plain == 5


@pytest.mark.parametrize("edns", [None, Edns(0), Edns(600), Edns(1232), Edns(65535)], ids=str)
def test_replies_are_cut_to_the_payload_size(server: Server, edns: Edns | None) -> None:
    server.bind()
    client = server.client()
    query = ask(edns=edns)
    limit = 512 if edns is None else max(512, edns.payload_size)
    reply = addresses(query, 200)
    server.under_test.store(query, reply)
    for _ in range(4):
        found = server.ask(client, query)
        assert found == to_wire(query, reply, min(limit, 65507))
        assert bool(found[2] & TC >> 8) is (limit < 3000)


def test_replies_repeat_their_queries(server: Server) -> None:
    """The same questions again and again, in all forms."""
    server.bind()
    client = server.client()
    forms = [
        ask(query_id=11), ask(query_id=12, flags=0), ask("WEB.default.SVC.cluster.local.", query_id=13),
        ask(edns=Edns(1232)), ask(edns=Edns(1232, options=((10, b"12345678"), (8, b"subnet")))),
        ask(edns=Edns(4096, do=True)), ask(flags=0x10),
    ]  # fmt: skip
    for form in (forms[0], forms[3], forms[5], forms[6]):
        server.under_test.store(form, addresses(form, 2), rotate=False)
    for _ in range(4):
        for form in forms:
            assert server.ask(client, form) == to_wire(form, addresses(form, 2))


@pytest.mark.parametrize("log", [False, True], ids=["", "logged"])
@pytest.mark.parametrize("rotate", [False, True], ids=["fixed", "rotating"])
def test_kinds_of_hits(server: Server, rotate: bool, log: bool) -> None:
    """In any case and with any cookie."""
    server.bind()
    client, under_test = server.client(), server.under_test
    queries = [
        ask(name, edns=Edns(1232, do=True, options=options), query_id=number)
        for number, (name, options) in enumerate(
            (name, options)
            for options in ((), ((10, b"COOKIE78"),), ((10, bytes(24)),))
            for name in ("web.org.", "WEB.org.", "wEb.oRG.")
        )
    ]
    under_test.store(queries[0], addresses(queries[0], 1 + rotate), rotate=rotate, group=3, log=log)
    octets = 0
    for _ in range(3):
        for query in queries:
            reply = server.ask(client, query)
            wanted = to_wire(query, addresses(query, 1 + rotate))
            assert (sorted(reply), reply[:2]) == (sorted(wanted), query[:2])
            if not rotate:
                assert reply == wanted
            octets += len(query)
    statistics = under_test.table.statistics()
    assert (statistics.hits, statistics.misses, statistics.stale) == (27, 0, 0)
    [((group, is_tcp), cells)] = under_test.cells().items()
    assert (group, is_tcp, cells[0], cells[CELL_DO], cells[CELL_REQUEST_SUM]) == (
        3, False, 27, 27, octets,
    )  # fmt: skip
    records = under_test.table.take_log(100)
    assert len(records) == (27 if log else 0)
    assert [record[0] for record in records] == queries * (3 if log else 0)


@pytest.mark.parametrize("count", [2, 33, 60], ids=["short", "over-512", "over-all"])
def test_sizes_are_lowered(server: Server, count: int) -> None:
    """In replies, in those that rotate, and in a negative zone."""
    server.bind()
    client, under_test = server.client(), server.under_test
    under_test.add_negative_zone(max_payload=700)
    assert under_test.set_template()
    stored, rotating = ask(edns=Edns(0)), ask("rotates.org.", edns=Edns(0))
    under_test.store(stored, addresses(stored, count), max_payload=600)
    under_test.store(rotating, addresses(rotating, count), max_payload=600, rotate=True)
    for _ in range(4):
        for size in (0, 300, 512, 599, 600, 601, 700, 701, 4096, 65535):
            for options in ((), ((10, b"12345678"),), ((3, b"x" * 40), (8, b"away"))):
                edns = Edns(size, options=options)
                lowered, limit = edns.lowered(600), max(512, min(600, size))
                wanted = to_wire(ask(edns=lowered), addresses(stored, count), limit)
                assert server.ask(client, ask(edns=edns)) == wanted
                rotated = server.ask(client, ask("rotates.org.", edns=edns))
                start = to_wire(
                    ask("rotates.org.", edns=lowered), addresses(rotating, count), limit
                )
                assert (len(rotated), rotated[:12]) == (len(start), start[:12])
                assert rotated.endswith(lowered.to_wire())
                absent = ask("r.cluster.local.", edns=edns)
                wanted = to_wire(ask("r.cluster.local.", edns=edns.lowered(700)), nxdomain(soa(0)))
                assert server.ask(client, absent) == wanted
    plain = ask()
    under_test.store(plain, addresses(plain, count), max_payload=600)
    assert server.ask(client, plain) == to_wire(plain, addresses(plain, count), 512)


def test_rotation_and_serials_and_events(server: Server) -> None:
    server.bind()
    client, under_test = server.client(), server.under_test
    query, other = ask(), ask("none.default.svc.cluster.local.", 28)
    reply = addresses(query, 3).replace(authority=(soa(0),))
    under_test.store(query, reply, rotate=True, dependencies=[(1, 0)])
    under_test.store(other, nodata(soa()), dependencies=[(2, 0)])
    for turn in range(7):
        rotated = reply.replace(answer=reply.answer[turn % 3 :] + reply.answer[: turn % 3])
        assert server.ask(client, query) == to_wire(query, rotated)
    for serial in (1, 1, 1, 2, 2, 2, 2):
        under_test.names.serial = serial
        under_test.versions.bump(77)
        assert server.ask(client, other) == to_wire(other, nodata(soa(serial)))
    under_test.versions.bump(2)
    client.send(other)
    assert [miss[0] for miss in server.serve()] == [other]
    assert server.ask(client, query) == to_wire(query, reply.replace(
        answer=reply.answer[1:] + reply.answer[:1], authority=(soa(2),)))  # fmt: skip


def test_absent_names(server: Server) -> None:
    server.bind()
    client, under_test = server.client(), server.under_test
    under_test.add_negative_zone()
    under_test.set_template()
    for number in range(3):
        query = ask(f"r{number}.CLUSTER.local.")
        assert server.ask(client, query) == to_wire(query, nxdomain(soa(0)))


WILDCARDS = [
    ("0.0.0.0", "127.0.0.1", 0), ("0.0.0.0", "127.0.0.2", 0), ("::", "127.0.0.2", 0), ("::", "::1", 1),
]  # fmt: skip


@pytest.mark.parametrize(("host", "asked", "ipv6"), WILDCARDS)
def test_a_reply_leaves_from_the_address_that_was_asked(
    server: Server, host: str, asked: str, ipv6: int
) -> None:
    server.bind(host, wildcard=True)
    hit, missing = ask(), ask("x.org.")
    server.under_test.store(hit, addresses(hit))
    client = server.client(asked)
    beside = server.client("127.0.0.1")
    for _ in range(3):
        client.send(missing)
        client.send(hit)
        beside.send(hit)
        [(query, address, control)] = server.serve()
        assert query == missing
        assert len(control) >= 28
        server.batch.send([(b"reply", address, control)])
        assert [client.recv(65535) for _ in range(2)] == [
            to_wire(hit, addresses(hit)),
            b"reply",
        ]
        assert beside.recv(65535) == to_wire(hit, addresses(hit))
    [(_, cells)] = server.under_test.cells().items()
    assert cells[:2] == [6 - 3 * ipv6, 3 * ipv6]
    assert server.batch.statistics().send_errors == {}


def test_ipv6(server: Server) -> None:
    server.bind("::1")
    client = server.client("::1")
    query = ask()
    server.under_test.store(query, addresses(query))
    for _ in range(3):
        assert server.ask(client, query) == to_wire(query, addresses(query))
    client.send(b"not a query")
    [(_, address, control)] = server.serve()
    assert (address, control) == (write_address(socket.AF_INET6, client.getsockname()), b"")
    server.batch.send([(b"reply", address, control)])
    assert client.recv(100) == b"reply"
    [(_, cells)] = server.under_test.cells().items()
    assert cells[:2] == [0, 3]


def test_replies_that_cannot_be_sent_are_counted(server: Server) -> None:
    server.bind()
    client = server.client()
    client.send(b"x")
    [(_, address, _)] = server.serve()
    nowhere = write_address(socket.AF_INET, ("127.0.0.1", 0))
    replies = [(b"1", address), (bytes(65508), address), (b"2", nowhere), (b"3", address), (b"4", nowhere), (b"5", address)]  # fmt: skip
    server.batch.send([(*each, b"") for each in replies])
    assert [client.recv(10) for _ in range(3)] == [b"1", b"3", b"5"]
    statistics = server.batch.statistics()
    assert statistics.sent == 3
    assert statistics.send_errors == {errno.EMSGSIZE: 1, errno.EINVAL: 2}


def test_a_closed_client_does_no_harm(server: Server) -> None:
    server.bind()
    query = ask()
    server.under_test.store(query, addresses(query))
    gone, client = server.client(), server.client()
    gone.send(query)
    gone.close()
    assert server.serve() == []
    for _ in range(3):
        assert server.ask(client, query) == to_wire(query, addresses(query))


def test_a_closed_socket(server: Server) -> None:
    server.bind()
    server.sock.close()
    with pytest.raises(OSError, match=os.strerror(errno.EBADF)):
        server.serve()


def test_many_destination_addresses(server: Server) -> None:
    """More than the sender remembers control data of."""
    server.bind("0.0.0.0", wildcard=True)
    query = ask()
    server.under_test.store(query, addresses(query))
    client = server._open(socket.AF_INET, "127.0.0.1")
    client.settimeout(DEADLINE)
    for start in range(0, 300, 50):
        asked = [f"127.0.{number // 250}.{number % 250 + 1}" for number in range(start, start + 50)]
        for host in asked:
            client.sendto(query, (host, server.port))
        assert server.serve() == []
        assert [client.recvfrom(65535)[1][0] for _ in asked] == asked
