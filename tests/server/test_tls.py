"""TLS on loopback and in memory: handshakes, ends, certificates exchanged under open connections."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, suppress
from typing import Any

import pytest

from hsdns.server.transport.admission import STEPS, Turns
from hsdns.server.transport.connection import PLAIN_HTTP, RECORDS, TlsConnection
from hsdns.server.transport.sockets import DEFAULT_LIMITS, Limits, Settings
from tests.support.clients.messages import query, summary
from tests.support.clients.sockets import TcpClient
from tests.support.coroutines.event_loops import LOOPS, until
from tests.support.servers.function_processor import Answer, asked_address
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
async def test_context_is_exchanged_between_connections(loop: str) -> None:
    async with serving() as it:
        reader, writer = await it.connect(client_context())
        it.server.settings = Settings(tls=server_context("other-server"))
        with pytest.raises(ssl.SSLCertVerificationError):
            await it.connect(client_context())
        _, other = await it.connect(client_context(authority="other-ca"))
        writer.write(framed(7))  # what is open goes on with what it began with
        assert (await receive(reader)).startswith("7 NOERROR")
        writer.close()
        other.close()


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


class Outside(asyncio.Transport):
    """A transport that keeps what is written."""

    def __init__(self) -> None:
        super().__init__()
        self.out = bytearray()
        self.calls: list[str] = []

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return {"peername": ("192.0.2.1", 5)}.get(name, default)

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.out += data

    def get_write_buffer_size(self) -> int:
        return 42

    def is_closing(self) -> bool:
        return "close" in self.calls

    def is_reading(self) -> bool:
        return True

    def close(self) -> None:
        self.calls.append("close")

    def abort(self) -> None:
        self.calls.append("abort")

    def write_eof(self) -> None:
        self.calls.append("write_eof")

    def pause_reading(self) -> None:
        self.calls.append("pause_reading")

    def resume_reading(self) -> None:
        self.calls.append("resume_reading")

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self.calls.append(f"limits {high} {low}")


class Inside(asyncio.Protocol):
    """Keeps what it is told."""

    client = b"\xc0\0\2\1"

    def __init__(self, stays: bool = False) -> None:
        self.heard: list[Any] = []
        self.encrypted = 0
        self.stays = stays
        self.transport: TlsConnection

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, TlsConnection)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.heard.append(data)

    def eof_received(self) -> bool:
        self.heard.append("eof")
        return self.stays

    def connection_lost(self, exc: Exception | None) -> None:
        self.heard.append("lost")

    def count_encrypted(self, octets: int) -> None:
        self.encrypted = octets

    def pause_writing(self) -> None:
        self.heard.append("pause")

    def resume_writing(self) -> None:
        self.heard.append("resume")


class Pair:
    """A client and a server that hand each other octets, all at once or one by one."""

    def __init__(
        self, *, stays: bool = False, is_http: bool = False, turns: Turns | None = None
    ) -> None:
        self.inside, self.outside = Inside(stays), Outside()
        inside: Any = self.inside
        self.server = TlsConnection(
            inside, server_context(), is_http=is_http, turns=turns, connection=inside
        )
        self.server.connection_made(self.outside)
        self.incoming, self.outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.client = client_context().wrap_bio(
            self.incoming, self.outgoing, server_hostname=ADDRESS
        )

    def exchange(self, step: int | None = None) -> None:
        """Hand over what either has to say."""
        while self.outgoing.pending or self.outside.out:
            data = self.outgoing.read()
            for at in range(0, len(data), step or len(data) or 1):
                self.server.data_received(data[at : at + step] if step else data)
            self.incoming.write(self.outside.out)
            self.outside.out.clear()
            with suppress(ssl.SSLWantReadError):
                self.client.do_handshake()

    def shake(self, step: int | None = None) -> None:
        """Shake hands."""
        with pytest.raises(ssl.SSLWantReadError):
            self.client.do_handshake()
        self.exchange(step)


def sent_in_records(pair: Pair, count: int) -> bytes:
    """Records of one octet each."""
    for number in range(count):
        pair.client.write(bytes((number % 256,)))
    return pair.outgoing.read()


def test_small_records_are_decrypted_in_turns() -> None:
    """A read full of them does not hold up others; what waits is counted, and nothing is read meanwhile."""
    now, calls = 0.0, list[Callable[[], None]]()
    pair = Pair(turns=Turns(lambda: now, calls.append))
    pair.shake()
    sent = sent_in_records(pair, 100 * RECORDS)
    pair.outside.calls.clear()
    pair.server.data_received(sent[:-1])
    at_once = (1 + STEPS) * RECORDS
    assert len(b"".join(pair.inside.heard)) == at_once
    assert pair.outside.calls == ["pause_reading"]
    assert pair.inside.encrypted == len(sent) * (100 * RECORDS - at_once) // (100 * RECORDS) - 1
    pair.inside.transport.pause_reading()
    pair.inside.transport.resume_reading()
    assert pair.outside.calls == ["pause_reading"] * 3, "some still wait"
    while calls:
        calls.pop()()
    assert pair.outside.calls == ["pause_reading"] * 3 + ["resume_reading"]
    assert pair.inside.encrypted == 0
    pair.server.data_received(sent[-1:])
    assert b"".join(pair.inside.heard) == bytes(range(256)) * (100 * RECORDS // 256) + bytes(
        range(100 * RECORDS % 256)
    )
    assert pair.outside.calls == ["pause_reading"] * 3 + ["resume_reading"]


@pytest.mark.parametrize("how", ["end", "lost"])
def test_an_end_while_records_wait(how: str) -> None:
    calls = list[Callable[[], None]]()
    pair = Pair(turns=Turns(lambda: 0.0, calls.append))
    pair.shake()
    sent = sent_in_records(pair, 100 * RECORDS)
    if how == "end":
        with pytest.raises(ssl.SSLWantReadError):
            pair.client.unwrap()
        sent += pair.outgoing.read()
    pair.server.data_received(sent)
    if how == "lost":
        pair.server.connection_lost(None)
    while calls:
        calls.pop()()
    heard = sum(len(each) for each in pair.inside.heard if isinstance(each, bytes))
    assert heard == (100 * RECORDS if how == "end" else (1 + STEPS) * RECORDS)
    assert pair.inside.heard[-1] == ("eof" if how == "end" else "lost")
    assert ("close" in pair.outside.calls) is (how == "end")
    assert pair.inside.encrypted == 0


@pytest.mark.parametrize("stays", [False, True])
def test_end_of_the_client(stays: bool) -> None:
    pair = Pair(stays=stays)
    pair.shake()
    with pytest.raises(ssl.SSLWantReadError):
        pair.client.unwrap()
    pair.server.data_received(pair.outgoing.read())
    assert pair.inside.heard == ["eof"]
    assert pair.outside.calls == ([] if stays else ["close"])
    assert bool(pair.outside.out) is not stays  # the server's own close_notify
    if stays:
        pair.inside.transport.write(b"late answer")
        assert pair.outside.out
        pair.inside.transport.close()
        assert pair.outside.calls == ["close"]


def test_after_its_end_nothing_is_heard() -> None:
    pair = Pair()
    pair.shake()
    pair.inside.transport.write_eof()
    said = bytes(pair.outside.out)
    pair.client.write(b"late")
    pair.server.data_received(pair.outgoing.read())
    pair.inside.transport.write(b"later")
    pair.inside.transport.close()
    assert pair.inside.heard == []
    assert bytes(pair.outside.out) == said
    assert pair.outside.calls == ["write_eof", "close"]


@pytest.mark.parametrize(("is_http", "said"), [(True, PLAIN_HTTP), (False, b"\x15\x03")])
def test_plain_http(is_http: bool, said: bytes) -> None:
    pair = Pair(is_http=is_http)
    pair.server.data_received(b"GET /health HTTP/1.1\r\n\r\n")
    assert bytes(pair.outside.out).startswith(said) or (not is_http and not pair.outside.out)
    assert pair.outside.calls == ["close"]
    assert pair.inside.heard == []


def test_broken_records() -> None:
    pair = Pair()
    pair.shake()
    pair.server.data_received(b"\x17\x03\x03\x00\x20" + bytes(32))
    assert pair.outside.calls == ["close"]
    pair.server.connection_lost(None)
    assert pair.inside.heard == ["lost"]
    pair.server.data_received(b"more")
    pair.inside.transport.write(b"more")
    assert pair.inside.heard == ["lost"]
