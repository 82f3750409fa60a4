"""Compiled code that forwards says what the chain says of an upstream's reply, octet for octet, or leaves it to the chain."""

from __future__ import annotations

import re
import select
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from itertools import count
from pathlib import Path
from typing import Any, Final

import dns.message
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hsdns.chain import Next, Request
from hsdns.plugins.forward import Forward
from hsdns.server.transport.sockets import socket_address
from hsdns.upstream.multiplexer import sent_on
from hsdns.wire.decode import decode, decode_reply
from hsdns.wire.edns import Edns
from hsdns.wire.encode import MAX_TCP_LEN, encode, encode_query
from hsdns.wire.message import AD, CD, RD, RR, Query, Reply
from hsdns.wire.name import Name
from tests import strategies
from tests.fastpath.twins import NATIVE
from tests.support.effort import tries
from tests.support.servers.memory_server import CLIENT, KUBERNETES, MemoryServer, ask
from tests.support.servers.udp_listeners import NEEDS_NATIVE
from tests.support.tables import lines
from tests.test_same_metrics import STOCK_CACHE, block, shown

pytestmark = [pytest.mark.sockets, NEEDS_NATIVE]
DEADLINE: Final = 30.0  # seconds
CONFIGURED: Final = "forward . 127.0.0.1:%d {\nread_timeout %s\nmax_concurrent 9\n}"


class Forwarding:
    """A worker that forwards, between a client and an upstream, beside a chain that gets the same replies."""

    def __init__(self, read_timeout: str) -> None:
        twin = import_module(NATIVE)
        sockets = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(3)]
        self.upstream, self.served, self.client = self.sockets = sockets
        self.upstream.bind(("127.0.0.1", 0))
        self.served.bind(("127.0.0.1", 0))
        self.client.connect(self.served.getsockname())
        forward = CONFIGURED % (self.upstream.getsockname()[1], read_timeout)
        corefile = block(STOCK_CACHE + KUBERNETES + forward)
        self.server, self.plain = (MemoryServer(corefile, each) for each in (twin, None))
        self.queue = twin.MissQueue()
        self.worker = twin.Worker(self.served.fileno(), False, self.queue, 0)
        self.worker.exchange(self.server.writer.table)

    def ask(self, wire: bytes) -> tuple[bytes, tuple[str, int]]:
        """The query that the upstream gets, and where it came from."""
        self.client.send(wire)
        assert self.first(self.upstream), "it is left to the chain"
        return self.upstream.recvfrom(4096)

    @property
    def waiting(self) -> int:
        """The number of clients that wait for the upstream."""
        forwards = (each for each in self.server.configuration.plugins if isinstance(each, Forward))
        return sum(each.compiled.waiting for each in forwards if each.compiled is not None)

    def first(self, sock: socket.socket) -> bool:
        """Whether a socket receives before the chain has a query."""
        found, _, _ = select.select((sock, self.queue), (), (), DEADLINE)
        assert found, "nothing came"
        return sock in found

    def answered(self) -> bytes | None:
        """The reply that the client gets; None if the chain has to answer."""
        return self.client.recv(65535) if self.first(self.client) else None


Script: dict[str, bytes] = {}


@pytest.fixture(scope="module", autouse=True)
def scripted_forward() -> Iterator[None]:
    """Have `forward` of the chain take the reply of Script."""

    async def handle(self: Any, request: Request, next: Next) -> Reply:  # noqa: A002 - the word of the interface
        return decode_reply(Script["reply"], request.query)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Forward, "handle", handle)
        yield


@contextmanager
def forwarding(read_timeout: str = "60s") -> Iterator[Forwarding]:
    found = Forwarding(read_timeout)
    thread = threading.Thread(target=found.worker.run)
    thread.start()
    try:
        yield found
    finally:
        found.worker.stop()
        with suppress(OSError):  # it still wakes the worker
            found.served.shutdown(socket.SHUT_RD)
        thread.join()
        for each in found.server.configuration.plugins:
            if isinstance(each, Forward) and each.compiled is not None:
                each.compiled.stop()
        for sock in found.sockets:
            sock.close()


RECORDS: Final = st.lists(strategies.records(), max_size=3)
TYPES: Final = (1, 1, 1, 28, 5, 16, 65)
FLAGS: Final = (RD, RD, RD | AD, RD | CD)
EDNS: Final = (None, Edns(1232), Edns(4096, options=((10, b"12345678"),)))


def draw_reply(draw: Callable[[st.SearchStrategy[Any]], Any], query: Query) -> bytes:
    """Of an upstream: often about the name, compressed by either of two encoders, sometimes damaged."""
    owner, answer, ttls = query.qname.lowered(), draw(RECORDS), st.sampled_from([0, 7, 40])
    own = draw(st.lists(strategies.records_of(query.qtype, ttls), max_size=3))
    own = [each._replace(owner=owner) for each in own]
    reply = Reply(
        draw(st.sampled_from([0, 0, 0, 3, 2])),
        answer=(*own, *answer[: draw(st.integers(0, 1))]),
        authority=draw(st.just([]) | RECORDS),
        additional=draw(st.just([]) | RECORDS),
        aa=draw(st.booleans()),
        ra=draw(st.booleans()),
        ad=draw(st.booleans()),
    )
    wire = encode(sent_on(query), reply, MAX_TCP_LEN)
    if draw(st.booleans()):
        wire = dns.message.from_wire(wire).to_wire(max_size=MAX_TCP_LEN)
    damaged: bytes = draw(strategies.damaged(wire)) if draw(st.integers(0, 3)) == 0 else wire
    return damaged


def exchange(server: Forwarding, query: Query, reply: bytes) -> bool:
    """Ask both with the same reply of the upstream, then again; return whether the chain was not needed."""
    wire, right = encode_query(query, 7), encode(sent_on(query), Reply(2), 512)
    sent, address = server.ask(wire)
    assert sent[2:] == encode_query(sent_on(query.replace(flags=query.flags | AD)), 0)[2:]
    for each in (reply, right):  # where the first one is no reply to the question
        server.upstream.sendto(sent[:2] + each[2:], address)
    Script["reply"] = sent[:2] + reply[2:]
    found, expected = server.answered(), server.plain.from_chain(wire)
    if found is None:
        server.queue.take(1)
        server.server.from_chain(wire)
        return False
    assert found == expected
    table = server.server.writer.table
    again = table.lookup(wire, client=socket_address(CLIENT), limit=None, now=0.0)
    assert again == server.plain.from_chain(wire)
    return True


def test_replies_and_metrics_are_those_of_the_chain() -> None:
    """What is asked of the upstream, the first reply, and the next one from the table."""
    numbers, usual = count(), Counter[bool]()

    @settings(max_examples=tries(200), suppress_health_check=list(HealthCheck), deadline=None)
    @given(st.data())
    def compare(data: st.DataObject) -> None:
        qname = Name.from_text(f"{data.draw(st.sampled_from('nN'))}{next(numbers):06}.example.org.")
        qtype, flags = data.draw(st.sampled_from(TYPES)), data.draw(st.sampled_from(FLAGS))
        edns = data.draw(st.sampled_from(EDNS))
        query = Query.ask(qname, qtype, query_id=7, flags=flags, edns=edns)
        found = exchange(server, query, draw_reply(data.draw, query))
        usual[found] += 1
        if not found:  # or it would rest after some more
            query = Query.ask(Name.from_text(f"u{next(numbers):06}.example.org."), 1, query_id=7)
            answer = (RR(query.qname, 1, 60, bytes(4)),)
            assert exchange(server, query, encode(query, Reply(answer=answer), 512))

    with forwarding() as server:
        compare()
        of_both = [shown(server.server), shown(server.plain)]
        found, expected = ([each for each in of if "_proxy_" not in each] for of in of_both)
        assert found == expected
    assert usual[True] > usual.total() / 25


@pytest.mark.parametrize("line", lines(Path(__file__).with_name("forwarded_answers.txt")))
def test_what_an_upstream_sends(line: str) -> None:
    asked, sent, outcome = (part.strip() for part in line.split("|"))
    names = {"a": "WWW.example.org.", "H": "www.example.org. HTTPS"}
    wires = [
        ask(names.get(each, "www.example.org."), edns=Edns(1232) if each == "B" else None)
        for each in asked.split()
    ]
    with forwarding("60s" if sent else "2ms") as server:
        query, address = server.ask(wires[0])
        for wire in wires[1:]:
            server.client.send(wire)
        found = Counter[str]()
        if "B" in asked:
            found["chain"] += server.answered() is None
            server.queue.take(1)
        end = time.monotonic() + DEADLINE
        while sent and server.waiting < len(wires) - found["chain"]:
            assert time.monotonic() < end, "not all queries wait"
        for number, word in re.findall(r"(?:(\d+)\*)?(\w+)", sent):
            for _ in range(int(number or 1)):
                server.upstream.sendto(datagram(query, word), address)
        for _ in range(len(wires) - found["chain"]):
            reply = server.answered()
            found["chain" if reply is None else "answered"] += 1
            server.queue.take(1)
        expected = Counter(re.findall(r"answered|chain", outcome))
        assert set(found) == set(expected)
        assert not server.server.writer.table.statistics().hits
        if "suspect" in outcome:
            server.client.send(wires[0])
            assert server.answered() is None


def datagram(query: bytes, word: str) -> bytes:
    """What an upstream sends for a query."""
    asked = decode(query)
    if word == "question":
        asked = asked.replace(question_wire=b"\3ww2" + asked.question_wire[4:])
    data = b"\0\1\3svc" + asked.qname.wire + b"\0\1\0\3\2h2" if asked.qtype == 65 else bytes(4)
    answer = (RR(asked.qname, asked.qtype, 60, data),)
    reply = Reply(2 if word == "SERVFAIL" else 0, answer, tc=word == "TC")
    wire = bytearray(encode(asked, reply, 512))
    if word == "id":
        wire[0] ^= 1
    elif word == "query":
        wire[2] ^= 0x80
    elif word == "none":
        wire[4:] = bytes(8)
    return bytes(wire)
