"""One question over sockets on loopback: servers that answer, that answer something else, and that do not."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from random import Random

import pytest

from hsdns.ask.question import NoReply, ask
from hsdns.wire.iana import Rcode, RRType
from hsdns.wire.message import Query
from hsdns.wire.name import Name
from loadtest.ports import free_port, open_both
from tests.load.servers import answer

QUERY = Query.ask(Name.from_text("www.a.test."), RRType.A)
TRUNCATED = 0x02

pytestmark = pytest.mark.sockets


@contextmanager
def server(*datagrams: str, stream: str = "none") -> Iterator[int]:
    """Send these datagrams for a query, and this over TCP: answer, other (another ID), truncated, short, close or none."""
    udp, tcp = open_both()
    port = udp.getsockname()[1]

    def over_udp() -> None:
        query, client = udp.recvfrom(4096)
        for word in datagrams:
            udp.sendto(made(word, query), client)

    def over_tcp() -> None:
        connection, _ = tcp.accept()
        with connection:
            query = connection.recv(4096)[2:]
            if stream != "close" and query:
                reply = made(stream, query)
                connection.sendall(len(reply).to_bytes(2, "big") + reply)

    threads = [threading.Thread(target=over_udp)]
    if stream != "none":
        threads.append(threading.Thread(target=over_tcp))
    for each in threads:
        each.start()
    try:
        yield port
    finally:
        for each in threads:
            each.join()
        udp.close()
        tcp.close()


def made(word: str, query: bytes) -> bytes:
    reply = bytearray(answer(query))
    if word == "other":
        reply[0] ^= 0xFF
    elif word == "truncated":
        reply[2] |= TRUNCATED
    elif word == "short":
        del reply[8:]
    return bytes(reply)


def asked(port: int) -> str:
    """The address of the answer, or the sentence with PORT for the port."""
    try:
        reply = ask("127.0.0.1", port, QUERY, 0.2, Random(1))
    except NoReply as error:
        return str(error).replace(str(port), "PORT")
    assert (reply.rcode, reply.authority, reply.additional) == (Rcode.NOERROR, (), ())
    ((owner, rrtype, ttl, rdata, _),) = reply.answer
    assert (owner, rrtype, ttl) == (QUERY.qname, RRType.A, 5)
    return socket.inet_ntoa(rdata)


@pytest.mark.parametrize(
    ("datagrams", "stream", "said"),
    [
        (("answer",), "none", "10.0.0.1"),
        (("other", "short", "answer"), "none", "10.0.0.1"),
        (("other",), "none", "no reply came from 127.0.0.1 port PORT within 0.2 s"),
        (("truncated",), "answer", "10.0.0.1"),
        (("truncated",), "other", "127.0.0.1 port PORT sent no DNS reply over TCP"),
        (("truncated",), "close", "127.0.0.1 port PORT does not answer over TCP: the connection was closed"),
    ],
)  # fmt: skip
def test_replies(datagrams: tuple[str, ...], stream: str, said: str) -> None:
    with server(*datagrams, stream=stream) as port:
        assert asked(port) == said


def test_nothing_listens() -> None:
    assert asked(free_port()) == "nothing listens on UDP at 127.0.0.1 port PORT"
