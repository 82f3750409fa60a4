"""Many replies to few clients: sent together where the kernel cuts them, and each as if it had been alone."""

import socket
from types import ModuleType

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from hsdns.fastpath.mmsg import IS_AVAILABLE
from hsdns.fastpath.trains import LEAST_FOR_TRAINS, MAX_DATAGRAM_LEN, make
from tests.fastpath.servers import Server
from tests.fastpath.twins import PYTHON, addresses, ask, to_wire

pytestmark = pytest.mark.sockets

UDP_GRO = 104  # udp(7): the receiver takes a train uncut
ROOM = 200_000  # octets of Linux's default receive buffer, 212,992, that replies which nobody reads yet may take
LENGTHS = st.sampled_from((12, 90, 91, 208, 512, 1232, 1233, 4000))
HOSTS = [("127.0.0.1", False), ("127.0.0.1", True), ("::1", False), ("::1", True), ("::", True)]


def fitting(replies: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Leave out the replies for which a client's receive buffer has no room: the kernel drops them."""
    room = dict.fromkeys(range(4), ROOM)
    found = []
    for client, length in replies:
        taken = 2304 if length <= 1233 else 8448  # the kernel counts whole blocks of memory
        if taken <= room[client]:
            room[client] -= taken
            found.append((client, length))
    return found


@pytest.mark.parametrize(("host", "wildcard"), HOSTS)
@settings(
    max_examples=25,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(replies=st.lists(st.tuples(st.integers(0, 3), LENGTHS), max_size=80).map(fitting))
@example(replies=fitting([(0, 4000)] * 80))
@example(replies=[(0, 1232)] * 80)
@example(replies=[(0, 12)] * 80)
def test_each_client_gets_its_replies_in_order(
    server: Server, host: str, wildcard: bool, replies: list[tuple[int, int]]
) -> None:
    if not server.sockets:
        server.bind(host, wildcard)
        for _ in range(4):
            server.client(host if host != "::" else "127.0.0.1")
    clients = server.sockets[1:]
    for client in clients:
        client.send(b"unusual")
    ways = {address: (address, control) for _, address, control in server.serve()}
    assert len(ways) == len(clients)
    before = server.batch.statistics()
    wires = [bytes([number]) * length for number, (_, length) in enumerate(replies)]
    to = list(ways.values())
    server.batch.send(
        [(wire, *to[client]) for wire, (client, _) in zip(wires, replies, strict=True)]
    )
    for at, client in enumerate(clients):
        wanted = [
            wire for wire, (to_client, _) in zip(wires, replies, strict=True) if to_client == at
        ]
        assert [client.recv(65535) for _ in wanted] == wanted
    after = server.batch.statistics()
    assert (after.sent - before.sent, after.send_errors) == (len(replies), {})


@pytest.mark.parametrize(("host", "wildcard"), HOSTS)
def test_hits_of_one_client_leave_as_one_message_if_there_are_many(
    twin: ModuleType, host: str, wildcard: bool
) -> None:
    if twin.__name__ == PYTHON and not IS_AVAILABLE:
        pytest.skip("this host has no sendmmsg, so each reply is a message")
    server = Server(twin, twin.Batch)
    try:
        server.bind(host, wildcard)
        server.under_test.store(ask(), addresses(ask()))
        client = server.client(host if host != "::" else "127.0.0.1")
        client.setsockopt(socket.IPPROTO_UDP, UDP_GRO, 1)
        for count in (LEAST_FOR_TRAINS, LEAST_FOR_TRAINS - 1, 2 * LEAST_FOR_TRAINS):
            for number in range(count):
                client.send(ask(query_id=number))
            assert server.serve() == []
            replies = [to_wire(ask(query_id=number), addresses(ask())) for number in range(count)]
            together = [b"".join(replies)] if count >= LEAST_FOR_TRAINS else replies
            assert [client.recv(65535) for _ in together] == together
    finally:
        server.close()


SENT_TOGETHER = [
    ("nothing", [], []),
    ("one", [(7, 90)], [[0]]),
    ("equal", [(7, 90), (7, 90), (7, 90)], [[0, 1, 2]]),
    ("two clients", [(7, 90), (8, 90), (7, 90), (8, 90)], [[0, 2], [1, 3]]),
    ("a shorter one is the last", [(7, 90), (7, 80), (7, 80)], [[0, 1], [2]]),
    ("a longer one is the first", [(7, 80), (7, 90), (7, 90)], [[0], [1, 2]]),
    ("too long", [(7, 1233), (7, 1233)], [[0], [1]]),
    ("a short one after that", [(7, 90), (7, 1233), (7, 90), (7, 90)], [[0], [1], [2, 3]]),
    ("empty", [(7, 0), (7, 0)], [[0], [1]]),
    ("an empty one at the end", [(7, 9), (7, 0), (7, 0)], [[0, 1], [2]]),
]


@pytest.mark.parametrize(
    ("replies", "wanted"), [row[1:] for row in SENT_TOGETHER], ids=[row[0] for row in SENT_TOGETHER]
)
def test_what_goes_to_one_client_in_one_length_goes_together(
    replies: list[tuple[int, int]], wanted: list[list[int]]
) -> None:
    clients, lengths = ([row[at] for row in replies] for at in (0, 1))
    assert make(clients, lengths, MAX_DATAGRAM_LEN) == wanted


def test_where_the_kernel_cuts_nothing_each_goes_alone() -> None:
    assert make([7, 7], [90, 90], 0) == [[0], [1]]


def test_a_train_is_no_longer_than_a_packet() -> None:
    assert [len(each) for each in make([7] * 64, [MAX_DATAGRAM_LEN] * 64, MAX_DATAGRAM_LEN)] == [
        52,
        12,
    ]
