"""UDP on loopback: who is answered, from where, and what a batch is."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from hsdns.assemble import Listen
from hsdns.chain import Request
from hsdns.metrics import Counter
from hsdns.query import QueryProcessor
from hsdns.server.listener import open_udp
from hsdns.server.runtime import Tasks
from hsdns.server.udp import BATCH_LEN, UdpServer
from hsdns.wire.message import RR, Reply
from tests.support.sockets import (
    LOOPS,
    Answer,
    UdpClient,
    asked_address,
    processor,
    query,
    run,
    summary,
    until,
)

pytestmark = pytest.mark.sockets

IPV6 = pytest.mark.skipif(not socket.has_ipv6, reason="this Python has no IPv6")


def lost_counter() -> Counter:
    return Counter("lost", "Lost.", ("errno",))


@asynccontextmanager
async def serving(
    answer: Answer | QueryProcessor = asked_address,
    host: str = "127.0.0.1",
    clock: Callable[[], float] = lambda: 0.0,
    lost: Counter | None = None,
) -> AsyncIterator[UdpServer]:
    tasks = Tasks()
    server = UdpServer(
        open_udp(Listen(host, 0)),
        answer if isinstance(answer, QueryProcessor) else processor(answer),
        tasks.spawn,
        clock,
        lost_counter() if lost is None else lost,
    )
    server.start()
    try:
        yield server
    finally:
        server.close()
        await tasks.cancel()


# --- where answers come from ---


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize(
    ("host", "asked", "rrtype"),
    [
        pytest.param("127.0.0.1", "127.0.0.1", "A", id="ipv4"),
        pytest.param("127.0.0.2", "127.0.0.2", "A", id="other-loopback"),
        pytest.param("::1", "::1", "AAAA", id="ipv6", marks=IPV6),
        pytest.param("", "127.0.0.1", "A", id="all-ipv4"),
        pytest.param("", "127.0.0.2", "A", id="all-second-address"),
        pytest.param("", "127.0.0.3", "A", id="all-third-address"),
        pytest.param("", "::1", "AAAA", id="all-ipv6", marks=IPV6),
        pytest.param("0.0.0.0", "127.0.0.2", "A", id="bound-to-all-ipv4"),
        pytest.param("0.0.0.0", "::1", "AAAA", id="bound-to-all-ipv4-asked-over-ipv6", marks=IPV6),
        pytest.param("::", "127.0.0.2", "A", id="bound-to-all-ipv6-asked-over-ipv4", marks=IPV6),
        pytest.param("::", "::1", "AAAA", id="bound-to-all-ipv6", marks=IPV6),
    ],
)
def test_answer_leaves_from_the_address_that_was_asked(
    loop: str, host: str, asked: str, rrtype: str
) -> None:
    async def test() -> tuple[str, str]:
        async with serving(host=host) as server:
            family = socket.AF_INET6 if ":" in asked else socket.AF_INET
            with UdpClient(family) as client:
                wire, came_from = await client.ask(
                    query(rrtype=rrtype).to_wire(), (asked, server.local.port)
                )
                return summary(wire), came_from

    reply, came_from = run(test(), loop)
    assert came_from == asked
    assert reply == f"1 NOERROR qr aa rd | example.org. 0 IN {rrtype} {asked} |  | "


@pytest.mark.parametrize(
    ("host", "family", "asked"),
    [
        pytest.param("127.0.0.1", socket.AF_INET, "127.0.0.1", id="bound"),
        pytest.param("", socket.AF_INET, "127.0.0.2", id="all-ipv4-client-is-plain-ipv4"),
        pytest.param("", socket.AF_INET6, "::1", id="all-ipv6", marks=IPV6),
    ],
)
def test_request_knows_both_ends(host: str, family: socket.AddressFamily, asked: str) -> None:
    seen: list[Request] = []

    async def note(request: Request) -> Reply:
        seen.append(request)
        return Reply()

    async def test() -> None:
        async with serving(note, host, clock=lambda: 12.5) as server:
            with UdpClient(family) as client:
                client.sock.bind(("127.0.0.9" if family == socket.AF_INET else "::1", 0))
                await client.ask(query().to_wire(), (asked, server.local.port))
                request = seen[0]
                assert tuple(request.client) == client.sock.getsockname()[:2]
                assert tuple(request.local) == (asked, server.local.port)
                assert (request.protocol, request.now) == ("udp", 12.5)

    run(test())


# --- what a datagram may be ---

HEADER = bytes.fromhex("0007 0100 0001 0000 0000 0000")
QUESTION = bytes.fromhex("07 6578616d706c65 03 6f7267 00 0001 0001")


def padded(size: int) -> bytes:
    """A query of so many octets, made long by one EDNS option."""
    head = HEADER[:-1] + b"\x01" + QUESTION + bytes.fromhex("00 0029 1000 00000000")
    room = size - len(head) - 2
    option = bytes.fromhex("ffde") + (room - 4).to_bytes(2, "big") + bytes(room - 4)
    return head + room.to_bytes(2, "big") + option


@pytest.mark.parametrize(
    ("sent", "reply"),
    [
        pytest.param(HEADER + QUESTION, "0007 8500 0001 0001 0000 0000", id="query"),
        pytest.param(padded(4096), "0007 8500 0001 0001 0000 0001", id="longest"),
        pytest.param(padded(4097), "0007 8101 0000 0000 0000 0000", id="too-long"),
        pytest.param(padded(9000), "0007 8101 0000 0000 0000 0000", id="much-too-long"),
        pytest.param(HEADER, "0007 8101 0000 0000 0000 0000", id="no-question"),
        pytest.param(bytes.fromhex("0007 2900 0001 0000 0000 0000"), "0007 a904 0000 0000 0000 0000", id="update"),
    ],
)  # fmt: skip
def test_header_of_the_reply(sent: bytes, reply: str) -> None:
    async def test() -> bytes:
        async with serving() as server:
            with UdpClient() as client:
                return (await client.ask(sent, ("127.0.0.1", server.local.port)))[0]

    wire = run(test())
    assert wire[:12] == bytes.fromhex(reply)
    if wire[3] & 15:
        assert len(wire) == 12


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize(
    "sent",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b"\0" * 11, id="shorter-than-a-header"),
        pytest.param(bytes.fromhex("0007 8100 0001 0000 0000 0000") + QUESTION, id="reply"),
    ],
)
def test_silence(sent: bytes, loop: str) -> None:
    async def test() -> bytes:
        async with serving() as server:
            with UdpClient() as client:
                address = ("127.0.0.1", server.local.port)
                client.sock.sendto(sent, address)
                wire, _ = await client.ask(query(number=99).to_wire(), address)
                assert server.pending == 0
                return wire

    # What comes first is the answer to the question after it.
    assert summary(run(test(), loop)).startswith("99 NOERROR")


def test_dropped_reply_is_silence() -> None:
    async def drop_first(request: Request) -> Reply:
        return Reply(dropped=request.query.id == 1)

    async def test() -> bytes:
        async with serving(drop_first) as server:
            with UdpClient() as client:
                address = ("127.0.0.1", server.local.port)
                client.sock.sendto(query(number=1).to_wire(), address)
                return (await client.ask(query(number=2).to_wire(), address))[0]

    assert summary(run(test())) == "2 NOERROR qr rd |  |  | "


# --- many at once ---


@pytest.mark.parametrize("loop", LOOPS)
def test_burst_is_answered_whole(loop: str) -> None:
    count = 500
    assert count > BATCH_LEN

    async def test() -> set[int]:
        async with serving(host="") as server:
            with UdpClient() as client:
                for number in range(count):
                    client.sock.sendto(
                        query(number=number).to_wire(), ("127.0.0.1", server.local.port)
                    )
                return {
                    int.from_bytes((await client.receive())[0][:2], "big") for _ in range(count)
                }

    assert run(test(), loop) == set(range(count))


@pytest.mark.parametrize(
    ("payload", "fits"),
    [
        pytest.param(None, 30, id="no-edns"),
        pytest.param(100, 29, id="edns-smaller-than-512-is-512"),
        pytest.param(512, 29, id="edns-512"),
        pytest.param(1232, 74, id="edns-1232"),
        pytest.param(4096, 100, id="edns-4096"),
    ],
)
def test_reply_is_cut_to_the_size_of_the_client(payload: int | None, fits: int) -> None:
    async def hundred(request: Request) -> Reply:
        qname = request.query.qname
        return Reply(answer=tuple(RR(qname, 1, 5, bytes((10, 0, 0, n))) for n in range(100)))

    async def test() -> bytes:
        async with serving(hundred) as server:
            with UdpClient() as client:
                options: dict[str, Any] = (
                    {} if payload is None else {"use_edns": 0, "payload": payload}
                )
                wire, _ = await client.ask(
                    query(**options).to_wire(), ("127.0.0.1", server.local.port)
                )
                return wire

    wire = run(test())
    question = 12 + 17
    opt = 0 if payload is None else 11
    assert len(wire) == question + fits * 16 + opt <= max(512, payload or 0)
    assert int.from_bytes(wire[6:8], "big") == fits
    assert bool(wire[2] & 0x02) is (fits < 100)


# --- queries that wait ---


@pytest.mark.parametrize("loop", LOOPS)
def test_a_query_that_waits_holds_up_nobody(loop: str) -> None:
    async def test() -> list[int]:
        go_on = asyncio.Event()

        async def wait_for_first(request: Request) -> Reply:
            if request.query.id == 1:
                await go_on.wait()
            return Reply()

        async with serving(wait_for_first, host="") as server:
            with UdpClient() as client:
                address = ("127.0.0.2", server.local.port)
                client.sock.sendto(query(number=1).to_wire(), address)
                order = []
                wire, _ = await client.ask(query(number=2).to_wire(), address)
                order.append(wire[1])
                assert server.pending == 1
                go_on.set()
                wire, came_from = await client.receive()
                order.append(wire[1])
                assert came_from == "127.0.0.2"
                await until(lambda: server.pending == 0, "no query in work")
                return order

    assert run(test(), loop) == [2, 1]


def test_processor_is_exchanged_between_two_datagrams() -> None:
    async def test() -> list[str]:
        async def old(request: Request) -> Reply:
            return Reply(rcode=3)

        async with serving(old) as server:
            with UdpClient() as client:
                address = ("127.0.0.1", server.local.port)
                first, _ = await client.ask(query(number=1).to_wire(), address)
                server.processor = processor(asked_address)
                second, _ = await client.ask(query(number=2).to_wire(), address)
                return [summary(first), summary(second)]

    assert run(test()) == [
        "1 NXDOMAIN qr rd |  |  | ",
        "2 NOERROR qr aa rd | example.org. 0 IN A 127.0.0.1 |  | ",
    ]


# --- what goes wrong ---


def test_handler_that_raises_costs_one_query() -> None:
    async def fail_first(request: Request) -> Reply:
        if request.query.id == 1:
            raise RuntimeError("broken")
        return Reply()

    async def test() -> list[str]:
        async with serving(fail_first) as server:
            with UdpClient() as client:
                address = ("127.0.0.1", server.local.port)
                replies = [
                    summary((await client.ask(query(number=number).to_wire(), address))[0])
                    for number in (1, 2)
                ]
                assert server.pending == 0
                return replies

    assert run(test()) == ["1 SERVFAIL qr rd |  |  | ", "2 NOERROR qr rd |  |  | "]


def test_reply_that_no_datagram_holds_is_cut() -> None:
    async def huge(request: Request) -> Reply:
        if request.query.id != 1:
            return Reply()
        # 65,522 octets with all around it: DNS has room for that, a datagram (65,507) has not, so it is cut.
        return Reply(answer=(RR(request.query.qname, 16, 0, bytes(65470)),))

    async def test() -> None:
        lost = lost_counter()
        async with serving(huge, lost=lost) as server:
            with UdpClient() as client:
                client.sock.bind(("127.0.0.1", 0))
                address = ("127.0.0.1", server.local.port)
                big = query(number=1, use_edns=0, payload=65535).to_wire()
                wire, _ = await client.ask(big, address)
                assert wire[1] == 1
                assert wire[2] & 2, "TC"
                assert server.pending == 0
        assert lost.values == {}

    run(test())


def test_close_gives_the_port_back() -> None:
    async def test() -> None:
        async with serving() as server:
            port = server.local.port
        open_udp(Listen("127.0.0.1", port)).close()

    run(test())
