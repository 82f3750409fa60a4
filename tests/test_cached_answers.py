"""The answer table says of cached replies what the chain says, octet for octet, second by second.

The same questions are put at the same times to a server with an answer table and to one without; both have an upstream
of their own, whose replies tell how often it was asked.  So a refresh at another time shows in the octets.
"""

from __future__ import annotations

import logging
from collections import Counter
from pathlib import Path
from random import Random
from types import ModuleType
from typing import Any

import pytest

from hsdns.chain import Next, Request
from hsdns.cluster.objects import Upserted
from hsdns.plugins.cache import Cache
from hsdns.plugins.cache.store import judge
from hsdns.plugins.forward import Forward
from hsdns.server.transport.sockets import client_endpoint
from hsdns.wire import rdata
from hsdns.wire.edns import Edns
from hsdns.wire.iana import Rcode, RRType
from hsdns.wire.message import AD, CD, RD, RR, Reply
from hsdns.wire.name import Name
from tests.fastpath.twins import built
from tests.support.cluster.objects import service
from tests.support.coroutines.eager import finish
from tests.support.effort import tries
from tests.support.plugins.requests import make_request
from tests.support.servers.memory_server import KUBERNETES, MemoryServer, ask, cluster_objects
from tests.support.tables import section, sections
from tests.test_same_metrics import block, shown

ZONE_FILE = Path(__file__).parent / "scenarios" / "transfer" / "db.example.org"
SUBNET = b"\0\1\x18\0\xc0\0\2"
ORG = Name.from_text("org.")


class Upstream:
    """What `forward` answers, by the first label of the name; the last number of addresses and serials counts up."""

    def __init__(self) -> None:
        self.asked: Counter[bytes] = Counter()

    def answer(self, request: Request) -> Reply:
        """The next reply."""
        qname = request.query.qname
        word = qname.labels[0].lower()
        edns = request.query.edns
        if (
            edns is not None and (8, SUBNET) in edns.options
        ):  # as upstream/exchange.py marks its reply
            return Reply(answer=(RR(qname, RRType.A, 20, bytes(4)),), ra=True).held(lambda: False)
        self.asked[qname.lower] += 1
        number = self.asked[qname.lower] % 250
        soa = RR(ORG, RRType.SOA, 9, rdata.soa(ORG, ORG, number, 1, 1, 1, 6))
        if word == b"nx":
            return Reply(rcode=Rcode.NXDOMAIN, authority=(soa,), ra=True)
        if word == b"nodata":
            return Reply(authority=(soa,), ra=True)
        if word == b"fail":
            return Reply(rcode=Rcode.SERVFAIL, ra=True)
        if word == b"referral":
            return Reply(authority=(RR(ORG, RRType.NS, 60, qname.wire),), ra=True)
        if word == b"changing":
            return (
                Reply(rcode=Rcode.NXDOMAIN, authority=(soa,), ra=True)
                if number % 2
                else Reply(answer=(RR(qname, RRType.A, 4, bytes(4)),), ra=True)
            )
        owner, count = qname, 1
        answer: tuple[RR, ...] = ()
        if word == b"alias":
            owner, count = Name.from_text("real.example.net."), 3
            answer = (RR(qname, RRType.CNAME, 300, owner.wire),)
        if word == b"big":
            count = 60
        answer += tuple(RR(owner, RRType.A, 20, bytes((192, at, 2, number))) for at in range(count))
        return Reply(answer=answer, ra=True, ad=word == b"signed", aa=word == b"signed")


class Server(MemoryServer):
    """A server whose `forward` asks an upstream in memory, and whose background tasks run at once."""

    def __init__(self, corefile: str, twin: ModuleType | None) -> None:
        super().__init__(corefile, twin)
        self.upstream = Upstream()
        runtime: Any = self.runtime
        runtime.spawn = lambda coro, name: finish(coro)
        for each in self.configuration.plugins:
            if isinstance(each, Forward):
                each.upstream = self.upstream  # type: ignore[attr-defined]  # for the handler below

    def reply(self, wire: bytes, protocol: str) -> tuple[bytes | None, bool]:
        """The reply, and whether the table has made it."""
        found = self.from_table(wire, protocol) if self.has_table else None
        if found is not None:
            return found, True
        return self.from_chain(wire, protocol), False


@pytest.fixture(autouse=True)
def scripted_forward(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have `forward` ask the upstream of its server."""

    async def handle(self: Any, request: Request, next: Next) -> Reply:  # noqa: A002 - the word of the interface
        answer: Reply = self.upstream.answer(request)
        return answer

    monkeypatch.setattr(Forward, "handle", handle)


FORWARD = "forward . 192.0.2.1"
FILE = Path(__file__).with_name("cached_answers.txt")
BLOCKS = {
    name: section(FILE, name).replace("{KUBERNETES}", KUBERNETES).replace("{ZONE}", str(ZONE_FILE))
    for name in sections(FILE)
}
OVER_UDP = ("forward", "short denial", "file", "rewrite")
WORDS = "one ONE two nx nodata fail referral changing alias big signed".split()
FORMS: tuple[dict[str, Any], ...] = (
    {},
    {},
    {"flags": RD | AD},
    {"flags": CD},
    {"edns": Edns(1232)},
    {"edns": Edns(4096, do=True)},
    {"edns": Edns(1232, options=((10, b"12345678"),))},
)
STEPS = (0,) * 24 + (0.25, 0.5, 1, 2)


def questions(chance: Random, count: int) -> list[bytes]:
    """Few questions, in any order and form."""
    return [
        ask(f"{chance.choice(WORDS)}.org. A", query_id=number, **chance.choice(FORMS))
        for number in range(count)
    ]


@pytest.mark.parametrize(
    ("lines", "protocols"),
    [
        *(pytest.param(lines, ("tcp",), id=name) for name, lines in BLOCKS.items()),
        *(pytest.param(BLOCKS[name], ("udp", "tcp"), id=f"{name}, both") for name in OVER_UDP),
    ],
)
def test_same_octets_and_metrics(lines: str, protocols: tuple[str, ...]) -> None:
    """The twins side by side: the chain alone is asked once for both."""
    chance = Random(3)
    plain = Server(block(lines), None)
    servers = {twin.__name__: Server(block(lines), twin) for twin in built()}
    hits = Counter[str]()
    for wire in questions(chance, tries(1000)):
        plain.runtime.now += chance.choice(STEPS)
        protocol = chance.choice(protocols)
        expected = plain.from_chain(wire, protocol)
        for name, server in servers.items():
            server.runtime.now = plain.runtime.now
            found, is_hit = server.reply(wire, protocol)
            assert found == expected, name
            hits[name] += is_hit
    for name, server in servers.items():
        assert server.upstream.asked == plain.upstream.asked, name
        if len(protocols) == 1:  # a lookup without a socket counts as one over TCP
            assert shown(server) == shown(plain), name
        if "ttl suffix" not in lines:
            assert hits[name] > 60, f"the table of {name} answered much of it"


PREFETCH = f"cache 30 {{\nprefetch 3 60s 50%\n}}\n{FORWARD}"


def turns(server: Server, wire: bytes, *times: float) -> list[bool]:
    """Whether the table answered, at each time after the start."""
    found = []
    for time in times:
        server.runtime.now = 1000.0 + time
        reply, is_hit = server.reply(wire, "tcp")
        assert reply is not None
        found.append(is_hit)
    return found


@pytest.mark.parametrize(
    ("lines", "times", "hits"),
    [
        pytest.param(BLOCKS["forward"], (0, 0, 0, 19.5, 20), "--##-", id="until the TTL has run out"),
        pytest.param(PREFETCH, (0, 0, 0, 0, 0, 0.5, 1, 1.5), "----##-#", id="popular names, for a second"),
        pytest.param(PREFETCH, (0, 0, 0, 0, 9.5, 9.75, 10, 10), "-----#--", id="not when a refresh is due"),
        pytest.param(PREFETCH, (0, 0, 20.5, 20.5), "----", id="others not at all"),
    ],
)  # fmt: skip
def test_when_the_table_answers(
    twin: ModuleType, lines: str, times: tuple[float, ...], hits: str
) -> None:
    server = Server(block(lines), twin)
    found = turns(server, ask("one.org."), *times)
    assert "".join("#" if is_hit else "-" for is_hit in found) == hits


def test_a_reply_for_a_client_subnet_is_for_nobody_else(twin: ModuleType) -> None:
    server = Server(block(BLOCKS["forward"]), twin)
    tailored = ask("one.org.", edns=Edns(1232, options=((8, SUBNET),)))
    for _ in range(3):
        found, is_hit = server.reply(tailored, "tcp")
        assert found is not None
        assert (bytes((0, 4, 0, 0, 0, 0)) in found, is_hit) == (True, False)
    assert turns(server, ask("one.org."), 0, 0, 0) == [False, False, True]
    assert server.upstream.asked[b"\3one\3org\0"] == 1
    found, _ = server.reply(ask("one.org."), "tcp")
    assert found is not None
    assert bytes((0, 4, 192, 0, 2, 1)) in found


def test_a_name_that_appears_in_the_cluster_after_a_refresh(twin: ModuleType) -> None:
    """The table sends the refreshed reply, too, and for the same time."""
    server = Server(block(BLOCKS["prefetch, passed on by kubernetes"]), twin)
    wire = ask("one.default.svc.org.")
    turns(server, wire, 0, 0, 0, 0, 10)
    assert server.upstream.asked.total() == 2
    assert turns(server, wire, 10, 10.5) == [False, True]
    server.apply(*(Upserted(each) for each in cluster_objects(service("default/one", "10.96.0.1"))))
    assert turns(server, wire, 10.5) == [False]
    assert server.upstream.asked.total() == 2


def test_a_reply_that_replaces_another_one(twin: ModuleType) -> None:
    """Two queries ask the upstream at once: when the second reply is stored, the first one is not sent any more."""
    server = Server(block(BLOCKS["forward"]), twin)
    (cache,) = (each for each in server.configuration.plugins if isinstance(each, Cache))
    wire = ask("changing.org.")
    assert turns(server, wire, 0, 0, 0) == [False, False, True]
    request = make_request("changing.org.").replace(now=server.runtime.now)
    key = (request.query.qname.lower, RRType.A, 1, False, False)
    second = Reply(answer=(RR(request.query.qname, RRType.A, 4, bytes(4)),), ra=True)
    cache._store(request, key, second, judge(request.query, second, server.runtime.wall))
    assert server.reply(wire, "tcp")[1] is False
    assert server.reply(wire, "tcp") == (server.from_chain(wire, "tcp"), True)


LOGGED = {
    "nx": "NXDOMAIN",
    "nodata": "NOERROR",
    "fail": "SERVFAIL",
    "one": "NOERROR",
    "referral": "NOERROR",
}


@pytest.mark.parametrize("classes", ["all", "denial", "error", "success"])
def test_same_lines_in_the_log(
    twin: ModuleType, classes: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "hsdns.plugin.log")
    lines = []
    for each in (None, twin):
        server = Server(block(f"log . {{\nclass {classes}\n}}\n{BLOCKS['forward']}"), each)
        caplog.clear()
        hits = 0
        for word in LOGGED:
            for _ in range(4):
                hits += server.reply(ask(f"{word}.org."), "tcp")[1]
                if each is not None:
                    records = server.writer.table.take_log(10)
                    server.writer.hit_log.write(records, client_endpoint)
        assert hits == (0 if each is None else 8), "the table does not know a referral from no data"
        lines.append([record.getMessage().rpartition(" ")[0] for record in caplog.records])
    assert lines[0] == lines[1] != []
