"""DNS over HTTPS in memory and on loopback: both HTTPs, and every bound; what all transports have is in test_transports.py."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.errors import ErrorCodes
from h2.events import ConnectionTerminated

from hsdns.server.http.doh import DohConnection
from hsdns.server.http.doh_http2 import COUNTED, MAX_STREAMS, MAX_UNSENT, Http2
from hsdns.server.transport.admission import MAX_OCTETS, STEPS
from hsdns.server.transport.sockets import Settings
from hsdns.wire.framing import frame
from tests.support.clients import http2_frames
from tests.support.clients.https import Answered, Http1Client, Http2Client, get
from tests.support.clients.messages import query, summary
from tests.support.cluster.objects import service
from tests.support.coroutines.event_loops import LOOPS
from tests.support.servers.cluster_server import ClusterServer
from tests.support.servers.function_processor import Answer, asked_address
from tests.support.servers.memory_server import KUBERNETES, ask, cluster_objects
from tests.support.servers.stream_serving import (
    ADDRESS,
    MemoryServing,
    Serving,
    server_context,
    started,
)
from tests.support.servers.udp_listeners import each_kind
from tests.support.tables import values

TABLES = Path(__file__).with_name("tables.txt")

pytestmark = pytest.mark.sockets

SERVER = "https://:443"
CLIENTS = [Http1Client, Http2Client]


def serving(
    answer: Answer = asked_address, *, tls: bool = True
) -> AbstractAsyncContextManager[Serving]:
    settings = Settings(tls=server_context() if tls else None)
    return started(Serving(answer, SERVER, settings))


@pytest.fixture
def it() -> Iterator[MemoryServing]:
    found = MemoryServing("https")
    yield found
    found.close()


def check(answered: Answered) -> None:
    assert answered.status == 200
    assert summary(answered.body) == "0 NOERROR qr aa rd | example.org. 0 IN A 127.0.0.1 |  | "
    assert answered.headers["content-type"] == "application/dns-message"
    assert answered.headers["cache-control"] == "max-age=0"
    assert answered.headers["content-length"] == str(len(answered.body))
    assert "date" in answered.headers


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("client", CLIENTS)
async def test_queries(client: type[Http1Client], loop: str) -> None:
    """GET and POST, one after the other on one connection; what is wrong does not end it."""
    async with serving() as it, client(it.port) as connection:
        check(await connection.ask("GET", get()))
        check(await connection.ask("POST", "/dns-query", query(number=0).to_wire()))
        for method, target, body, status, text in (
            ("GET", "/other", b"", 404, b"\n"),
            ("HEAD", get(), b"", 400, b""),
            ("DELETE", get(), b"", 400, b"invalid request\n"),
            ("POST", "/dns-query", bytes(16_000), 400, b"invalid request\n"),
        ):
            found = await connection.ask(method, target, body)
            assert (found.status, found.body) == (status, text)
        check(await connection.ask("GET", get()))
        counted = it.metrics.counter("coredns_dns_https_responses_total").values
        assert counted == {(SERVER, "200"): 3, (SERVER, "404"): 1, (SERVER, "400"): 3}
        assert len(it.server.connections) == 1


# --- in memory ---


def codes(octets: bytes) -> list[int]:
    """The codes of the GOAWAY frames of a server."""
    client = H2Connection(H2Configuration(client_side=True))
    client.initiate_connection()
    # It has not asked, but only the last frame counts.
    return [
        int(event.error_code or 0)
        for part in http2_frames.split(octets)
        if part[3] in (http2_frames.SETTINGS, http2_frames.GOAWAY)
        for event in client.receive_data(part)
        if isinstance(event, ConnectionTerminated)
    ]


BEGIN = http2_frames.PREFACE + http2_frames.frame(http2_frames.SETTINGS, 0, 0)


def gets(count: int, first: int = 1, *, reset: bool = False) -> bytes:
    """Requests, each taken back at once if `reset`."""
    headers = http2_frames.get_headers(get())
    return b"".join(
        http2_frames.frame(http2_frames.HEADERS, 5, stream, headers)
        + (http2_frames.frame(http2_frames.RST_STREAM, 0, stream, b"\0\0\0\x08") if reset else b"")
        for stream in range(first, first + 2 * count, 2)
    )


def test_messages_of_a_turn_are_bounded(it: MemoryServing) -> None:
    """100 requests in one write of each of two clients: each turn has 64 frames, and both have a part of them."""
    clients = [it.connect() for _ in range(2)]
    for transport in clients:
        transport.connection.data_received(BEGIN + gets(100))
        assert transport.is_paused
    asked = [asked_of(it)]
    while it.next:
        it.turn()
        asked.append(asked_of(it))
    assert max(later - earlier for earlier, later in pairwise([0, *asked])) == STEPS
    assert asked[-1] == 200
    for transport in clients:
        assert len(http2_frames.split(transport.written)) == 2 + 2 * 100
        assert not transport.is_paused


def asked_of(it: MemoryServing) -> int:
    return len(it.processor.looked_up)


def test_small_frames_of_a_turn_are_bounded(it: MemoryServing) -> None:
    """Reads full of small frames are not looked through at once, and the next ones wait."""
    small = http2_frames.frame(http2_frames.WINDOW_UPDATE, 0, 0, b"\0\0\0\1") * 5000
    clients = [it.connect() for _ in range(20)]
    counted = 0.0
    for transport in clients:
        transport.connection.data_received(BEGIN + small)
        assert isinstance(transport.connection, DohConnection)
        assert isinstance(transport.connection._http, Http2)
        counted += 5000 - transport.connection._http.frames._left["window updates"]
    assert counted <= STEPS * COUNTED
    assert all(transport.is_paused for transport in clients)
    it.finish()
    assert not any(transport.is_paused or transport.is_over for transport in clients)
    clients[0].connection.data_received(small[:13])
    assert codes(clients[0].written) == [ErrorCodes.ENHANCE_YOUR_CALM]


ATTACKS = {
    "resets": BEGIN + gets(401, reset=True),
    "streams": BEGIN + gets(5001),
    "pings": BEGIN + http2_frames.frame(http2_frames.PING, 0, 0, bytes(8)) * 60,
    "settings": BEGIN + http2_frames.frame(http2_frames.SETTINGS, 0, 0) * 101,
    "header octets": BEGIN + http2_frames.frame(http2_frames.HEADERS, 1, 1, bytes(16_384))
    + http2_frames.frame(http2_frames.CONTINUATION, 4, 1, b"x"),
}  # fmt: skip


BOMB = http2_frames.frame(
    # A field of 3,000 octets in the table of HPACK, and references to it of one octet each.
    http2_frames.HEADERS, 5, 1,
    b"\x82\x87\x04\x01/\x40\x01a\x7f\xb9\x16" + bytes(b"b" * 3000) + b"\xbe" * 10,
)  # fmt: skip
FAULTS = {
    "PROTOCOL_ERROR": (BEGIN + http2_frames.frame(http2_frames.HEADERS, 5, 0, b""), ""),
    "HPACK bomb": (BEGIN + BOMB, "header octets"),
    **{limit: (octets, limit) for limit, octets in ATTACKS.items()},
}


@pytest.mark.parametrize("fault", FAULTS)
def test_connection_is_closed_for_a_fault_and_its_address_is_not_refused(
    fault: str, it: MemoryServing, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing of a read beyond a limit is parsed; only after many such connections the next one has to wait."""
    monkeypatch.setattr(it.server, "_call_later", lambda *_: None)
    octets, limit = FAULTS[fault]
    count = 0
    while not (transport := it.connect()).is_paused:
        transport.connection.data_received(octets)
        it.finish()
        count += 1
        assert transport.is_over
        code = ErrorCodes.ENHANCE_YOUR_CALM if limit else ErrorCodes.PROTOCOL_ERROR
        assert codes(transport.written) == [code]
        assert it.excesses.values == ({(it.processor.server, limit): count} if limit else {})
        transport.connection.connection_lost(None)
    assert asked_of(it) == 0
    assert count >= 8
    assert not transport.is_over
    assert not it.connect("192.0.2.2").is_paused


def test_requests_taken_back_stay_bounded(it: MemoryServing) -> None:
    """Rapid reset (CVE-2023-44487): streams that are closed again do not count, but the work for them does."""
    it.processor.knows, transport = "none", it.connect()
    transport.connection.data_received(BEGIN)
    for first in range(1, 401, 2):
        taken_back = http2_frames.frame(http2_frames.RST_STREAM, 0, first, bytes(4))
        for octets in (gets(1, first), taken_back):
            transport.connection.data_received(octets)
        it.turn()
    assert transport.connection.pending == asked_of(it) == MAX_STREAMS
    assert transport.is_paused


NO_WINDOW = http2_frames.PREFACE + http2_frames.frame(http2_frames.SETTINGS, 0, 0, b"\0\4\0\0\0\0")


def test_replies_that_wait_for_windows_are_bounded(it: MemoryServing) -> None:
    """A client that asks on, but never opens its window, keeps a bounded number of octets here."""
    it.processor.size, transport = 60_000, it.connect()
    transport.connection.data_received(NO_WINDOW)
    first = 1
    while not transport.is_over:
        transport.connection.data_received(gets(1, first))
        first += 2
        it.turn()
    assert first // 2 == MAX_UNSENT // 60_000 + 1
    assert codes(transport.written) == [ErrorCodes.ENHANCE_YOUR_CALM]


@pytest.mark.parametrize(("clients", "is_idle", "new", "closed"), values(TABLES, "a client with all connections keeps no others out"))  # fmt: skip
def test_a_client_with_all_connections_keeps_no_others_out(
    clients: str, is_idle: bool, new: str, closed: list[int], it: MemoryServing
) -> None:
    """Though each connection of it asked a moment ago, and the process has room for many more."""
    it.processor.knows = "all" if is_idle else "none"
    it.server.settings = it.server.settings._replace(max_connections=len(clients))
    found = [it.connect(f"192.0.2.{ord(client)}") for client in clients]
    for transport in found:
        transport.connection.data_received(BEGIN + gets(1))
    found.append(it.connect(f"192.0.2.{ord(new)}"))
    assert [index for index, each in enumerate(found) if each.is_over] == closed
    within = it.server.places._within
    assert within is not None
    assert len(it.server.places) == len(within) == len(clients)
    assert within.closed == (closed[0] < len(clients))


def unfinished(streams: int, size: int) -> bytes:
    """POST requests whose bodies do not end."""
    headers = http2_frames.get_headers("/dns-query").replace(b"\x82", b"\x83")
    return BEGIN + b"".join(
        http2_frames.frame(http2_frames.HEADERS, 4, stream, headers)
        + http2_frames.frame(http2_frames.DATA, 0, stream, bytes(size)) * 3
        for stream in range(1, 2 * streams, 2)
    )


WIDE = http2_frames.frame(http2_frames.SETTINGS, 0, 0, b"\0\4\x7f\0\0\0") + http2_frames.frame(
    http2_frames.WINDOW_UPDATE, 0, 0, b"\x10\0\0\0"
)
TCP_QUERY = frame(query(number=2).to_wire())


@pytest.mark.parametrize("loop", LOOPS)
async def test_client_without_credit_is_served_later(
    loop: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not even its handshake is read before; what it has sent meanwhile is answered then."""
    async with serving() as it:
        timers: list[Any] = []
        monkeypatch.setattr(it.server, "_call_later", lambda *timer: timers.append(timer))
        assert it.server._credit is not None
        it.server._credit.charge(ADDRESS, 1 << 30, 0, it.now)
        client = Http2Client(it.port)
        opening = asyncio.ensure_future(client.__aenter__())
        await it.connection()
        done, _ = await asyncio.wait([opening], timeout=0.05)
        assert not done
        ((_, call),) = timers
        call()
        async with asyncio.timeout(10):
            await opening
        check(await client.ask("GET", get()))
        await client.__aexit__()


@pytest.mark.parametrize(
    ("scheme", "sent", "octets", "reads"),
    [
        pytest.param("https", unfinished(20, 16_000), 20 * 48_000, True, id="bodies"),
        pytest.param("https", NO_WINDOW + gets(16), 16 * 60_000, True, id="windows"),
        pytest.param("https", http2_frames.PREFACE + WIDE + gets(16), 16 * 60_000, False, id="unread"),
        pytest.param("dns", frame(bytes(65_535))[:-1], 65_536, True, id="tcp-incomplete-messages"),
        pytest.param("dns", TCP_QUERY * 3, 65_537 + 2 * len(TCP_QUERY), False, id="tcp-unread"),
    ],
)  # fmt: skip
def test_octets_of_all_connections_are_bounded(
    scheme: str, sent: bytes, octets: int, reads: bool
) -> None:
    """They are those of one client, and it loses its connections; a client that has less loses none."""
    it = MemoryServing(scheme)
    it.processor.size = 60_000 if scheme == "https" else 65_535
    small = it.connect("192.0.2.2", reads=reads)
    found = [small, *(it.connect(reads=reads) for _ in range(80 * 960_000 // octets))]
    for transport in found:
        transport.connection.data_received(sent)
        it.finish()
        if transport.is_over:
            transport.connection.connection_lost(None)
    kept = sum(not transport.is_over for transport in found)
    places = it.server.places._within or it.server.places
    assert MAX_OCTETS * 3 / 4 < (kept - 1) * octets < places.octets <= MAX_OCTETS
    assert not small.is_over
    assert places.closed == len(found) - kept
    for transport in found:
        transport.connection.connection_lost(None)
    assert places.octets == 0


@each_kind
async def test_table_answers(kind: str, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Queries over HTTPS are counted and logged alike, whoever answers them."""
    text = f"https://.:PORT {{\nbind 127.0.0.1\nprometheus 127.0.0.1:HTTP\nlog\n{KUBERNETES}}}\n"
    objects = cluster_objects(service("default/web", "10.96.0.1"))

    async with ClusterServer(tmp_path, text, objects) as cluster_server:
        client = Http1Client(cluster_server.port, tls=False)
        async with client:
            _, port = client.writer.get_extra_info("sockname")
            for number in range(5):
                found = await client.ask(
                    "POST", "/dns-query", ask("web.default.svc.cluster.local.", query_id=number)
                )
                assert summary(found.body) == (
                    f"{number} NOERROR qr aa rd | web.default.svc.cluster.local. 5 IN A 10.96.0.1 |  | "
                )
                assert found.headers["cache-control"] == "max-age=5"
        assert cluster_server.hits() == 4
        server = f"https://127.0.0.1:{cluster_server.port}"
        requests = cluster_server.value("coredns_dns_requests_total")
        assert requests == {(server, ".", "", "tcp", "1", "A"): 5}
        assert cluster_server.value("coredns_dns_https_responses_total") == {(server, "200"): 5}
    lines = [line for line in caplog.messages if " IN " in line]
    assert [line.rpartition(" ")[0] for line in lines] == [
        f'127.0.0.1:{port} - {number} "A IN web.default.svc.cluster.local. tcp 47 false 65535"'
        " NOERROR qr,aa,rd 92"
        for number in range(5)
    ]
