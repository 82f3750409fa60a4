"""Connections that rules are about, on loopback: what the client of each kind of server sees."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager, suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hsdns.chain import Endpoint
from hsdns.faults.rules import Bite
from hsdns.faults.selector import Asked
from hsdns.server import faults
from hsdns.server.faults import FaultyConnection, SlowTransport
from hsdns.server.transport.admission import ListenerFaults
from hsdns.server.transport.sockets import Settings
from hsdns.wire.framing import frame
from tests.faults.queries import SERVERS, make_rule
from tests.support.clients.https import get
from tests.support.clients.messages import query, summary
from tests.support.coroutines.event_loops import DEADLINE, LOOPS, until
from tests.support.servers.noted import Noted
from tests.support.servers.stream_serving import ADDRESS, Serving, client_context, server_context

pytestmark = pytest.mark.sockets
KINDS = dict(zip(("tcp", "dot", "doh"), SERVERS, strict=True))
QUERY = frame(query().to_wire())
ANSWER = "1 NOERROR qr aa rd | example.org. 0 IN A 127.0.0.1 |  | "
RESET = "reset"
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@pytest.fixture(params=LOOPS, autouse=True)
def loop(request: pytest.FixtureRequest) -> str:
    """Play each test on both event loops."""
    return str(request.param)


class Faulty(Serving):
    """A server of one of KINDS with rules, and the clock that both read."""

    def __init__(self, kind: str, rules: tuple[str, ...]) -> None:
        super().__init__(
            server=KINDS[kind], settings=Settings(tls=None if kind == "tcp" else server_context())
        )
        self.now = 0.0
        self.rules = [make_rule(each) for each in rules]
        self.server.faults = ListenerFaults()
        self.server.faults.connect = lambda listener: FaultyConnection(listener, self.decide)
        self.context = None if kind == "tcp" else client_context()
        self.writers: list[asyncio.StreamWriter] = []

    def decide(self, server: str, client: Endpoint, local: Endpoint) -> list[Bite]:
        asked = Asked.unread(server, "tcp", client, local, lambda address: None)
        found = [rule.decide(asked, self.now) for rule in self.rules]
        return [each for each in found if each is not None]

    async def open(self, *, plain: bool = False) -> Streams:
        """Connect; over TLS with the handshake, unless that is left out."""
        found = await self.connect(None if plain else self.context)
        self.writers.append(found[1])
        return found


@asynccontextmanager
async def serving(kind: str, *rules: str) -> AsyncIterator[Faulty]:
    found = Faulty(kind, rules)
    await found.server.start()
    try:
        yield found
    finally:
        for each in found.writers:
            each.close()
            with suppress(OSError):
                await each.wait_closed()
        found.server.close()
        await found.tasks.cancel()


async def all_of(reader: asyncio.StreamReader) -> tuple[bytes, str]:
    """What comes until the end, and whether that is a reset."""
    found = b""
    async with asyncio.timeout(DEADLINE):
        try:
            while piece := await reader.read(65536):
                found += piece
        except ConnectionResetError:
            return found, RESET
    return found, ""


each_kind = pytest.mark.parametrize("kind", KINDS)


@each_kind
async def test_refused_before_any_octet(kind: str) -> None:
    """The connection is made, and reset; over TLS before the handshake."""
    async with serving(kind, "refuse times 1") as it:
        if it.context is None:
            reader, _ = await it.open()
            assert await all_of(reader) == (b"", RESET)
        else:
            with pytest.raises(ConnectionError):
                await it.open()
        assert (it.rules[0].hits, it.server.connections) == (1, set())
        await it.open()  # the next one is served


@each_kind
async def test_hung_until_the_rule_ends(kind: str) -> None:
    """Nothing is sent, not even a handshake, whatever the time limits; it has its place meanwhile."""
    async with serving(kind, "hang times 1 for 1h") as it:
        reader, writer = await it.open(plain=True)
        writer.write(QUERY)
        await until(lambda: len(it.server.connections) == 1, "a connection")
        for it.now in (60.0, 3599.0):
            it.server._sweep()
        other, _ = await it.open()
        assert len(it.server.connections) == 2
        it.now = 3600.0
        it.server._sweep()
        assert await all_of(reader) == (b"", "")
        assert other is not reader


@pytest.mark.parametrize("end", ["end", "close", "abort"])
async def test_a_hung_one_ends_with_its_listener(end: str) -> None:
    async with serving("tcp", "hang") as it:
        reader, _ = await it.open()
        await until(lambda: len(it.server.connections) == 1, "a connection")
        for each in tuple(it.server.connections):
            getattr(each, end)()
        assert await all_of(reader) == (b"", "")
        await until(lambda: not it.server.connections, "forgotten")


def ask_blocking(it: Faulty, *messages: bytes) -> tuple[bytes, str]:
    """What a client gets for messages, one after the other; asyncio's would forget it when the reset comes.

    Over TLS, that of Python does not tell a reset from an end without close_notify, which the server always sends.
    """
    with ExitStack() as stack:
        sock = stack.enter_context(socket.create_connection((ADDRESS, it.port), DEADLINE))
        if it.context is not None:
            wrapped = it.context.wrap_socket(
                sock, server_hostname=ADDRESS, suppress_ragged_eofs=False
            )
            sock = stack.enter_context(wrapped)
        found = b""
        try:
            for number, message in enumerate(messages, 1):
                sock.sendall(message)
                while len(found) < number * WHOLE and (piece := sock.recv(65536)):
                    found += piece
            return found, ""
        except (ConnectionResetError, ssl.SSLEOFError):
            return found, RESET


WHOLE = 2 + 12 + 17 + 16  # octets of an answer: its length, header, question, an A record


@pytest.mark.parametrize("kind", ["tcp", "dot"])
@pytest.mark.parametrize(
    ("rule", "octets"), [("reset", WHOLE // 2), ("reset 0", 0), ("reset 5", 5), ("reset 60", 60)]
)
async def test_reset_in_the_middle(rule: str, octets: int, kind: str) -> None:
    """After so many octets of replies, over TLS of those inside; 60 are in the second reply."""
    async with serving(kind, rule) as it:
        found, end = await asyncio.to_thread(ask_blocking, it, QUERY, QUERY)
        assert (len(found), end) == (octets, RESET)


async def test_reset_of_https() -> None:
    async with serving("doh", "reset 17") as it:
        request = f"GET {get()} HTTP/1.1\r\nHost: {ADDRESS}\r\n\r\n".encode()
        found = await asyncio.to_thread(ask_blocking, it, request)
        assert found == (b"HTTP/1.1 200 OK\r\n", RESET)


@pytest.mark.parametrize("kind", ["tcp", "dot"])
async def test_slow(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Octet by octet, and all of it, though the client has sent its end; faster here than it says."""
    pieces: list[int] = []
    plain = SlowTransport._send

    def send(transport: SlowTransport) -> None:
        before = len(transport._waiting)
        plain(transport)
        pieces.append(before - len(transport._waiting))

    monkeypatch.setattr(faults, "TICK", 1e-4)
    monkeypatch.setattr(SlowTransport, "_send", send)
    async with serving(kind, "slow 10000") as it:
        reader, writer = await it.open()
        writer.write(QUERY)
        if kind == "tcp":
            writer.write_eof()
            found, _ = await all_of(reader)
        else:
            found = await reader.readexactly(WHOLE)
        assert summary(found[2:]) == ANSWER
        assert pieces[:WHOLE] == [1] * WHOLE


@each_kind
async def test_a_listener_that_is_killed(kind: str) -> None:
    """Its connections end without a word, and its port is closed, as when a process is killed."""
    async with serving(kind) as it:
        reader, _ = await it.open()
        await until(lambda: len(it.server.connections) == 1, "a connection")
        it.server.kill()
        found, _ = await all_of(reader)
        assert found == b""
        with pytest.raises(ConnectionRefusedError):
            await it.open(plain=True)
        await until(lambda: not it.server.connections, "forgotten")


class Outside(Noted):
    """A transport that notes what it is told."""

    def write(self, data: bytes) -> None:
        self.calls.append(data)

    def is_closing(self) -> bool:
        return False


def slow(rate: int, *, lifted: bool = False) -> tuple[SlowTransport, Outside, Outside]:
    outside, inside = Outside(), Outside()
    made: Any = SlowTransport(inside, rate, lambda: lifted)  # type: ignore[arg-type]  # stand-ins
    made._outside = outside
    return made, outside, inside


@pytest.mark.parametrize("end", ["close", "write_eof"])
async def test_the_end_comes_last(end: str) -> None:
    transport, outside, _ = slow(10)
    transport.write(b"ab")
    getattr(transport, end)()
    assert (outside.calls, transport.is_closing()) == ([b"a"], end == "close")
    transport._send()
    assert outside.calls == [b"a", b"b", end]


@given(st.lists(st.one_of(st.binary(max_size=9), st.just(None)), max_size=30), st.integers(1, 60))
def test_all_comes_in_order(steps: list[bytes | None], rate: int) -> None:
    """Whatever is written, and whenever the timer runs (None): a piece at most each time, and nothing is lost."""

    async def test() -> None:
        transport, outside, _ = slow(rate)
        ticks = at_once = 0
        for step in [*steps, *[None] * 300]:
            if step is not None:
                at_once += transport._timer is None
                transport.write(step)
            elif transport._timer is not None:
                transport._timer.cancel()
                transport._send()
                ticks += 1
        transport.close()
        assert outside.calls.pop() == "close"
        assert b"".join(outside.calls) == b"".join(filter(None, steps))
        assert all(0 < len(each) <= transport._piece for each in outside.calls)
        assert len(outside.calls) <= ticks + at_once

    asyncio.run(test())


async def test_what_waits_is_bounded_and_an_abort_forgets_it() -> None:
    transport, outside, inside = slow(1)
    transport.write(bytes(faults.HIGH + 2))
    assert inside.calls == ["pause_writing"]
    del transport._waiting[faults.HIGH // 2 :]
    transport._send()
    assert inside.calls == ["pause_writing", "resume_writing"]
    transport.abort()
    transport._send()
    assert outside.calls == [b"\0", b"\0", "abort"]


async def test_a_reset_waits_until_all_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the kernel has not taken yet would be lost by it."""
    monkeypatch.setattr(faults, "POLL", 0.0)
    sizes = [2, 1, 0]

    class Full(Outside):
        def get_write_buffer_size(self) -> int:
            return sizes.pop(0)

        def get_extra_info(self, name: str) -> Any:
            return self

    outside_setsockopt = lambda self, *args: self.calls.append("setsockopt")  # noqa: E731
    monkeypatch.setattr(Full, "setsockopt", outside_setsockopt, raising=False)
    outside: Any = Full()
    made = faults.ResetTransport(outside, 1)
    made._outside = outside
    made.write(b"ab")
    await until(lambda: outside.calls == [b"a", "setsockopt", "abort"], "reset")
    assert sizes == []
