"""Many replies to few clients: sent together where the kernel cuts them, and each as if it had been alone."""

import importlib
import socket

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.fastpath.servers import Server
from tests.fastpath.twins import HAS_NATIVE, NATIVE, addresses, ask, to_wire

pytestmark = pytest.mark.sockets

UDP_GRO = 104  # udp(7): the receiver takes a train uncut
LEAST = 16  # in a smaller batch each goes alone
LENGTHS = st.sampled_from((12, 90, 91, 208, 512, 1232, 1233, 4000))
HOSTS = [("127.0.0.1", False), ("127.0.0.1", True), ("::1", False), ("::1", True), ("::", True)]


@pytest.mark.parametrize(("host", "wildcard"), HOSTS)
@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(replies=st.lists(st.tuples(st.integers(0, 3), LENGTHS), max_size=80))
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


@pytest.mark.skipif(not HAS_NATIVE, reason=f"{NATIVE} is not built, and only it sends trains")
@pytest.mark.parametrize(("host", "wildcard"), HOSTS)
def test_hits_of_one_client_leave_as_one_message_if_there_are_many(
    host: str, wildcard: bool
) -> None:
    native = importlib.import_module(NATIVE)
    server = Server(native, native.Batch)
    try:
        server.bind(host, wildcard)
        server.subject.learn(ask(), addresses(ask()))
        client = server.client(host if host != "::" else "127.0.0.1")
        client.setsockopt(socket.IPPROTO_UDP, UDP_GRO, 1)
        for count in (LEAST, LEAST - 1):
            for number in range(count):
                client.send(ask(query_id=number))
            assert server.serve() == []
            replies = [to_wire(ask(query_id=number), addresses(ask())) for number in range(count)]
            together = [b"".join(replies)] if count == LEAST else replies
            assert [client.recv(65535) for _ in together] == together
    finally:
        server.close()
