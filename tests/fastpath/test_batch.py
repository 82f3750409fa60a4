"""Datagrams over real sockets on loopback, on every kind of batch; what arrives there has arrived when sendto returns.

What only the portable batch has to do; all else is in test_batch.py, which runs on it too.
"""

import ctypes
import errno
import gc
import os
import socket

import pytest

from hsdns.fastpath.batch import MAX_CONTROLS, Batch, PortableBatch, Sender, to_words
from hsdns.fastpath.control import write_address
from hsdns.wire.edns import Edns
from hsdns.wire.message import TC
from tests.fastpath.servers import DEADLINE, Server
from tests.fastpath.twins import addresses, ask, to_wire

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


def test_without_a_table_everything_is_a_miss(server: Server) -> None:
    server.bind()
    assert server.batch.serve(None) == []
    assert server.batch.statistics().batches == 0
    server.client().send(ask())
    assert [query for query, _, _ in server.batch.serve(None)] == [ask()]


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
        assert [client.recv(65535) for _ in range(2)] == [to_wire(hit, addresses(hit)), b"reply"]
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
    if isinstance(server.batch, Batch):
        assert len(server.batch._sender._controls) == 300 - MAX_CONTROLS, "they begin anew"


@pytest.mark.parametrize(
    ("refused", "calls", "lost"),
    [(errno.EAGAIN, 1, 3), (errno.ENOBUFS, 1, 3), (errno.EINTR, 4, 0), (errno.EINVAL, 3, 1)],
)
def test_what_is_lost_when_the_kernel_refuses(
    refused: int, calls: int, lost: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where it has no room all that follow are lost; an interrupted call is made again; else the first of three is."""
    errors, seen = [refused], list[int]()

    def send(fd: int, header: int, count: int, flags: int) -> int:
        seen.append(count)
        if errors:
            ctypes.set_errno(errors.pop())
            return -1
        return 1

    with socket.socket(type=socket.SOCK_DGRAM) as sock:
        sender = Sender(sock.fileno(), 4, 16)
        monkeypatch.setattr(sender, "_send", send)
        sender.send(b"abc", [1, 1, 1], to_words([0, 0, 0]), [])
    expected = {refused: lost} if lost else {}
    assert (sender.errors, sender.sent, len(seen)) == (expected, 3 - lost, calls)


def test_the_socket_stays_its_owners() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.bind(("127.0.0.1", 0))
        gc.collect()  # what other tests have left behind goes now, and not below
        before = set(os.listdir("/proc/self/fd"))
        batch = PortableBatch(sock.fileno(), False)
        assert batch.serve(None) == []
        assert set(os.listdir("/proc/self/fd")) <= before
        del batch
        gc.collect()
        assert set(os.listdir("/proc/self/fd")) <= before
        sock.getsockname()


def test_no_socket() -> None:
    with open(os.devnull, "rb") as file, pytest.raises(OSError, match=r"(?i)socket"):
        PortableBatch(file.fileno(), False)
