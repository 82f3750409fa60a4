from __future__ import annotations

import asyncio
import socket

import pytest

from hsdns.upstream.target import Target
from hsdns.upstream.udp_socket import BATCH_LEN, TURN, UdpSockets
from loadtest.ports import open_both
from tests.support.coroutines.event_loops import until
from tests.support.upstreams.dns_upstream import OTHER_LOOPBACK, serve

pytestmark = pytest.mark.usefixtures("both_loops")


def no_time_passes() -> float:
    return 0.0


def unexpected(what: bytes | OSError) -> None:
    raise AssertionError(f"unexpected: {what!r}")


async def test_datagrams_come_and_go_in_batches() -> None:
    received: list[bytes] = []
    async with serve(lambda wire: [wire, wire]) as server:
        target = Target("dns", "127.0.0.1", server.port)
        sock = UdpSockets(target, OTHER_LOOPBACK, no_time_passes).open(received.append, unexpected)
        for k in range(BATCH_LEN):
            sock.send(b"%d" % k)
        await until(lambda: len(received) == 2 * BATCH_LEN, "the datagrams")
        assert received == [b"%d" % (k // 2) for k in range(2 * BATCH_LEN)]
        sock.close()
        sock.close()


async def test_others_run_between_datagrams_that_take_long() -> None:
    now = 0.0
    received: list[bytes] = []

    def receive(datagram: bytes) -> None:
        nonlocal now
        received.append(datagram)
        now += TURN / 2

    with socket.socket(type=socket.SOCK_DGRAM) as upstream:
        upstream.bind(("127.0.0.1", 0))
        target = Target("dns", *upstream.getsockname())
        sockets = UdpSockets(target, None, lambda: now)
        opened = [sockets.open(receive, unexpected) for _ in range(2)]
        assert sockets._selector is not None
        asyncio.get_running_loop().remove_reader(sockets._selector)
        for number, sock in enumerate(opened * 3):
            upstream.sendto(b"%d" % (number % 2), sock.sock.getsockname())
        for count in (2, 4, 6, 6):
            sockets._read()
            assert len(received) == count
        assert set(received[:4]) == {b"0", b"1"}, "each socket has its turn"
        for sock in opened:
            sock.close()


async def test_errors_of_datagrams_are_reported_each_time() -> None:
    errors: list[OSError] = []
    unused, other = open_both("127.0.0.1", 0)
    target = Target("dns", *unused.getsockname())
    unused.close()
    other.close()
    sock = UdpSockets(target, None, no_time_passes).open(unexpected, errors.append)
    for count in (1, 2):
        sock.send(b"to no listener")
        await until(lambda count=count: len(errors) == count, "the error")  # type: ignore[misc]  # mypy has no type for it
    assert {type(error) for error in errors} == {ConnectionRefusedError}
    sock.close()


async def test_a_socket_that_cannot_be_opened_leaves_nothing_open() -> None:
    sockets = UdpSockets(Target("dns", "127.0.0.1", 53), "192.0.2.99", no_time_passes)
    with pytest.raises(OSError, match=r"(?i)cannot assign requested"):
        sockets.open(unexpected, unexpected)
