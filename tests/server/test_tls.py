"""TLS on loopback and in memory: handshakes, ends, certificates exchanged under open connections."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, suppress
from typing import Any

import pytest

from hsdns.server.transport.admission import STEPS, Turns
from hsdns.server.transport.connection import RECORDS, TlsConnection
from hsdns.server.transport.sockets import DEFAULT_LIMITS, Limits, Settings
from tests.support.clients.messages import query, summary
from tests.support.clients.sockets import TcpClient
from tests.support.coroutines.event_loops import LOOPS, until
from tests.support.servers.function_processor import Answer, asked_address
from tests.support.servers.noted import Noted
from tests.support.servers.stream_serving import (
    ADDRESS,
    DATA,
    Serving,
    client_context,
    server_context,
    started,
)


def serving(
    answer: Answer = asked_address,
    context: ssl.SSLContext | None = None,
    limits: Limits = DEFAULT_LIMITS,
) -> AbstractAsyncContextManager[Serving]:
    return started(Serving(answer, "tls://:853", Settings(limits, context or server_context())))


def over_sockets(test: Callable[..., object]) -> object:
    """On loopback, on both event loops."""
    return pytest.mark.sockets(pytest.mark.parametrize("loop", LOOPS)(test))


def framed(*numbers: int) -> bytes:
    wires = [query(number=number).to_wire() for number in numbers]
    return b"".join(len(wire).to_bytes(2, "big") + wire for wire in wires)


async def receive(reader: asyncio.StreamReader) -> str:
    async with asyncio.timeout(30):
        size = int.from_bytes(await reader.readexactly(2), "big")
        return summary(await reader.readexactly(size))


@over_sockets
async def test_client_certificates(loop: str) -> None:
    async with serving(context=server_context(clients=True)) as it:
        known = client_context()
        known.load_cert_chain(DATA / "client.pem", DATA / "client.key")
        reader, writer = await it.connect(known)
        writer.write(framed(1))
        assert (await receive(reader)).startswith("1 NOERROR")
        writer.close()
        # With TLS 1.3 the client's handshake ends before the server has looked.
        reader, writer = await it.connect(client_context())
        writer.write(framed(1))
        with pytest.raises((ssl.SSLError, ConnectionError, asyncio.IncompleteReadError)):
            await receive(reader)
        writer.close()
        await until(lambda: not it.server.connections, "the stranger's connection closed")


@over_sockets
async def test_old_versions_and_plain_text_are_refused(loop: str) -> None:
    async with serving() as it:
        async with TcpClient((ADDRESS, it.port)) as plain:
            plain.send(query().to_wire())
            alert = await plain.reader.read(7)
            assert alert[:1] in (b"\x15", b"")  # an alert, no DNS
            assert await plain.has_ended()
        await until(lambda: not it.server.connections, "the connection closed")


# --- in memory ---


class Outside(Noted):
    """A transport that keeps what is written."""

    def __init__(self) -> None:
        super().__init__()
        self.out = bytearray()

    def write(self, data: bytes) -> None:
        self.out += data

    def is_closing(self) -> bool:
        return "close" in self.calls

    def get_extra_info(self, name: str) -> None:
        pass


class Inside(Noted):
    """The protocol above, which keeps what it receives."""

    client = b"\xc0\0\2\1"
    encrypted = 0

    def data_received(self, data: bytes) -> None:
        self.calls.append(data)

    def count_encrypted(self, octets: int) -> None:
        self.encrypted = octets


class Pair:
    """A client and a server in memory that have shaken hands; `turns` are those that wait for the server."""

    def __init__(self) -> None:
        inside: Any = Inside()
        outside: Any = Outside()
        self.inside, self.outside = inside, outside
        self.turns: list[Callable[[], None]] = []
        turns = Turns(lambda: 0.0, self.turns.append)
        self.server = TlsConnection(inside, server_context(), turns=turns, connection=inside)
        self.server.connection_made(outside)
        incoming, self.outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.client = client_context().wrap_bio(incoming, self.outgoing, server_hostname=ADDRESS)
        for _ in range(3):
            with suppress(ssl.SSLWantReadError):
                self.client.do_handshake()
            self.server.data_received(self.outgoing.read())
            incoming.write(outside.out)
            outside.out.clear()

    def finish(self) -> None:
        while self.turns:
            self.turns.pop()()


def sent_in_records(pair: Pair, count: int) -> bytes:
    """Records of one octet each."""
    for number in range(count):
        pair.client.write(bytes((number % 256,)))
    return pair.outgoing.read()


def test_small_records_are_decrypted_in_turns() -> None:
    """A read full of them does not hold up others; what waits is counted, and nothing is read meanwhile."""
    pair = Pair()
    sent = sent_in_records(pair, 100 * RECORDS)
    pair.outside.calls.clear()
    pair.inside.calls.clear()
    pair.server.data_received(sent[:-1])
    at_once = (1 + STEPS) * RECORDS
    assert len(b"".join(pair.inside.calls)) == at_once
    assert pair.outside.calls == ["pause_reading"]
    assert pair.inside.encrypted == len(sent) * (100 * RECORDS - at_once) // (100 * RECORDS) - 1
    pair.server.pause_reading()
    pair.server.resume_reading()
    assert pair.outside.calls == ["pause_reading"] * 3, "some still wait"
    pair.finish()
    assert pair.outside.calls == ["pause_reading"] * 3 + ["resume_reading"]
    assert pair.inside.encrypted == 0
    pair.server.data_received(sent[-1:])
    assert b"".join(pair.inside.calls) == bytes(range(256)) * (100 * RECORDS // 256) + bytes(
        range(100 * RECORDS % 256)
    )
    assert pair.outside.calls == ["pause_reading"] * 3 + ["resume_reading"]


@pytest.mark.parametrize("how", ["end", "lost"])
def test_an_end_while_records_wait(how: str) -> None:
    pair = Pair()
    sent = sent_in_records(pair, 100 * RECORDS)
    if how == "end":
        with pytest.raises(ssl.SSLWantReadError):
            pair.client.unwrap()
        sent += pair.outgoing.read()
    pair.server.data_received(sent)
    if how == "lost":
        pair.server.connection_lost(None)
    pair.finish()
    heard = sum(len(each) for each in pair.inside.calls if isinstance(each, bytes))
    assert heard == (100 * RECORDS if how == "end" else (1 + STEPS) * RECORDS)
    assert pair.inside.calls[-1] == ("eof_received" if how == "end" else "connection_lost")
    assert ("close" in pair.outside.calls) is (how == "end")
    assert pair.inside.encrypted == 0
