"""Batches of replies: every kind of batch delivers and counts alike, and the compiled one segments (GSO)."""

import errno
import importlib
import socket

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from hsdns.fastpath.control import write_address
from tests.fastpath.servers import Server
from tests.fastpath.twins import HAS_NATIVE, NATIVE, addresses, ask, to_wire
from tests.support.effort import tries

pytestmark = pytest.mark.sockets

UDP_GRO = 104  # udp(7): the receiver gets segments of one message joined, as the sender passed them to the kernel
LEAST_TO_SEGMENT = 16  # as in native/src/system/sender.rs
COUNT = 20
# Octets of Linux's default receive buffer, 212,992, for replies that are not read yet.
ROOM = 200_000
LENGTHS = st.sampled_from((12, 90, 91, 208, 512, 1232, 1233, 4000))
HOSTS = [("127.0.0.1", False), ("127.0.0.1", True), ("::1", False), ("::1", True), ("::", True)]


def fitting(replies: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Leave out replies that do not fit in a client's receive buffer, for the kernel drops them."""
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
    max_examples=tries(12),
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
        client.send(b"not a query")
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


@pytest.mark.skipif(not HAS_NATIVE, reason=f"{NATIVE} is not built, and only it segments")
@pytest.mark.parametrize(("host", "wildcard"), HOSTS)
def test_many_hits_of_one_client_leave_as_one_message(host: str, wildcard: bool) -> None:
    native = importlib.import_module(NATIVE)
    server = Server(native, native.Batch)
    try:
        server.bind(host, wildcard)
        server.under_test.store(ask(), addresses(ask()))
        client = server.client(host if host != "::" else "127.0.0.1")
        client.setsockopt(socket.IPPROTO_UDP, UDP_GRO, 1)
        for count in (LEAST_TO_SEGMENT, LEAST_TO_SEGMENT - 1, 2 * LEAST_TO_SEGMENT):
            for number in range(count):
                client.send(ask(query_id=number))
            assert server.serve() == []
            replies = [to_wire(ask(query_id=number), addresses(ask())) for number in range(count)]
            together = [b"".join(replies)] if count >= LEAST_TO_SEGMENT else replies
            assert [client.recv(65535) for _ in together] == together
    finally:
        server.close()


def test_refused_replies_do_not_end_segmentation(server: Server) -> None:
    server.bind()
    client = server.client()
    client.send(b"x")
    [(_, address, control)] = server.serve()
    nowhere = write_address(socket.AF_INET, ("127.0.0.1", 0))
    server.batch.send([(b"lost", nowhere, control)] * COUNT)
    client.setsockopt(socket.IPPROTO_UDP, UDP_GRO, 1)
    server.batch.send([(b"sent", address, control)] * COUNT)
    took = client.recv(65535)
    if len(took) == len(b"sent"):  # this kind of batch does not segment
        took += b"".join(client.recv(65535) for _ in range(COUNT - 1))
    assert took == b"sent" * COUNT
    assert server.batch.statistics().send_errors == {errno.EINVAL: COUNT}


@pytest.mark.parametrize("count", [1, LEAST_TO_SEGMENT])
def test_replies_with_all_that_a_query_came_with(server: Server, count: int) -> None:
    """More may be enabled on a socket than the address that was asked, which alone goes into replies."""
    server.bind("::1", wildcard=True)
    for option in (socket.IPV6_RECVHOPLIMIT, socket.IPV6_RECVTCLASS):
        server.sock.setsockopt(socket.IPPROTO_IPV6, option, 1)
    client = server.client("::1")
    client.send(b"x")
    [(_, address, control)] = server.serve()
    assert len(control) == 40 + 24 + 24
    server.batch.send([(b"reply", address, control)] * count)
    assert [client.recv(65535) for _ in range(count)] == [b"reply"] * count
    assert server.batch.statistics().send_errors == {}
