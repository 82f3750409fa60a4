"""The spine, without sockets and without an event loop: every answer here is made in one step."""

from __future__ import annotations

import logging
from typing import Any

import dns.flags
import dns.message
import dns.opcode
import dns.rcode
import pytest

from hsdns.chain import Endpoint, Next, Request
from hsdns.query import MAX_DEPTH, QueryProcessor
from hsdns.wire.edns import Edns
from hsdns.wire.message import Reply, unwritten
from hsdns.wire.name import Name
from hsdns.zones import Zones
from tests.support.drive import finish
from tests.support.requests import make_request, reply, rr
from tests.support.sockets import query, summary

CLIENT = Endpoint("192.0.2.1", 40000)
LOCAL = Endpoint("192.0.2.53", 53)


class Recorder:
    """A chain that answers with one reply, or raises one error, and keeps its requests."""

    def __init__(self, answer: Reply | Exception) -> None:
        self.answer = answer
        self.requests: list[Request] = []

    async def __call__(self, request: Request) -> Reply:
        self.requests.append(request)
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


class Spine:
    """A processor over zones, and what it told of refusals and panics."""

    def __init__(self, zones: dict[str, Next | None], *, any_class: bool = False) -> None:
        self.refused: list[tuple[Request, Reply]] = []
        self.panics = 0
        self.processor = QueryProcessor(
            "dns://:53",
            Zones({Name.from_text(zone): chain for zone, chain in zones.items()}),
            any_class=any_class,
            on_refused=lambda request, answer: self.refused.append((request, answer)),
            on_panic=self._panicked,
        )

    def _panicked(self) -> None:
        self.panics += 1

    def answer(self, wire: bytes, protocol: str = "udp") -> bytes | None:
        return finish(self.processor.answer(wire, CLIENT, LOCAL, protocol, 5.0))

    def summary(self, wire: bytes, protocol: str = "udp") -> str:
        found = self.answer(wire, protocol)
        assert found is not None, "silence"
        return summary(found)


FOUND = reply(["www.example.org. 60 IN A 192.0.2.80"], aa=True)

# --- step 4: which block answers ---

ZONES = ("example.org", "sub.example.org", "org")


@pytest.mark.parametrize(
    ("zones", "qname", "rrtype", "asked"),
    [
        pytest.param(ZONES, "www.example.org", "A", "example.org.", id="longest"),
        pytest.param(ZONES, "www.sub.example.org", "A", "sub.example.org.", id="longer"),
        pytest.param(ZONES, "sub.example.org", "A", "sub.example.org.", id="apex"),
        pytest.param(ZONES, "WWW.SUB.Example.ORG", "A", "sub.example.org.", id="letter-case"),
        pytest.param(ZONES, "www.xsub.example.org", "A", "example.org.", id="whole-labels"),
        pytest.param(ZONES, "other.org", "A", "org.", id="shorter"),
        pytest.param(ZONES, "sub.example.org", "DS", "org.", id="ds-to-the-shortest"),
        pytest.param(("example.org", "."), "sub.example.org", "DS", "example.org.", id="ds-not-to-the-root"),
        pytest.param(("example.org", "."), "example.net", "DS", ".", id="ds-to-the-root-alone"),
        pytest.param(("example.org", "."), "example.net", "A", ".", id="root"),
        pytest.param((".",), ".", "NS", ".", id="root-itself"),
    ],
)  # fmt: skip
def test_block(zones: tuple[str, ...], qname: str, rrtype: str, asked: str) -> None:
    chains = {f"{zone.removesuffix('.')}.": Recorder(FOUND) for zone in zones}
    spine = Spine(dict(chains))
    spine.answer(query(qname, rrtype).to_wire())
    assert {zone: len(chain.requests) for zone, chain in chains.items() if chain.requests} == {
        asked: 1
    }
    request = chains[asked].requests[0]
    assert request.zone.to_text() == asked
    assert (request.client, request.local, request.protocol) == (CLIENT, LOCAL, "udp")
    assert (request.server, request.now, request.depth) == ("dns://:53", 5.0, 0)
    assert not spine.refused


@pytest.mark.parametrize(
    ("wire", "expected"),
    [
        pytest.param(query("example.net").to_wire(), "1 REFUSED qr rd |  |  | ", id="no-block"),
        pytest.param(query("empty.org").to_wire(), "1 REFUSED qr rd |  |  | ", id="block-without-handlers"),
        pytest.param(query("example.org", rdclass="CH").to_wire(), "1 REFUSED qr rd |  |  | ", id="chaos"),
        pytest.param(query("example.org", rdclass="ANY").to_wire(), "1 REFUSED qr rd |  |  | ", id="any-class"),
        pytest.param(query("example.net", flags=dns.flags.CD).to_wire(), "1 REFUSED qr cd |  |  | ", id="flags"),
    ],
)  # fmt: skip
def test_refused(wire: bytes, expected: str) -> None:
    chain = Recorder(FOUND)
    spine = Spine({"example.org": chain, "empty.org": None})
    found = spine.answer(wire)
    assert found is not None
    assert summary(found) == expected
    assert found[12:] == wire[12:]  # the question as it was sent
    assert not chain.requests
    assert [answer.rcode for _, answer in spine.refused] == [5]


def test_other_class_reaches_the_chain_where_a_block_lets_it() -> None:
    chain = Recorder(unwritten(5))
    spine = Spine({".": chain}, any_class=True)
    assert (
        spine.summary(query("id.server", "TXT", rdclass="CH").to_wire())
        == "1 REFUSED qr rd |  |  | "
    )
    assert [request.query.qclass for request in chain.requests] == [3]
    assert not spine.refused


# --- steps 3 and 6 ---


@pytest.mark.parametrize(
    ("sent", "protocol", "replied"),
    [
        pytest.param("", "udp", None, id="nothing"),
        pytest.param("0007 8100 0001 0000 0000 0000 00 0001 0001", "udp", None, id="reply"),
        pytest.param("0007 2900 0001 0000 0000 0000 00 0006 0001", "udp", "0007 a904 0000 0000 0000 0000", id="update"),
        pytest.param("0007 0110 0000 0000 0000 0000", "tcp", "0007 8101 0000 0000 0000 0000", id="no-question"),
        pytest.param("0007 0100 0001 0000 0000 0000 03 777777 00 0001", "udp", "0007 8101 0000 0000 0000 0000", id="cut"),
    ],
)  # fmt: skip
def test_what_is_no_query_reaches_no_chain(sent: str, protocol: str, replied: str | None) -> None:
    chain = Recorder(FOUND)
    spine = Spine({".": chain})
    expected = None if replied is None else bytes.fromhex(replied)
    assert spine.answer(bytes.fromhex(sent), protocol) == expected
    assert not chain.requests
    assert not spine.refused


def test_badvers() -> None:
    """Question and OPT with rcode 16, version 0 and size 0; no chain is asked, whatever the zone."""
    chain = Recorder(FOUND)
    spine = Spine({"example.org": chain})
    for qname in ("www.example.org", "example.net"):
        wire = query(qname, use_edns=1, payload=1232, want_dnssec=True).to_wire()
        found = spine.answer(wire)
        assert found is not None
        message = dns.message.from_wire(found)
        assert message.rcode() == dns.rcode.BADVERS
        assert (message.edns, message.payload, message.options) == (0, 0, ())
        assert summary(found) == "1 BADVERS qr rd |  |  | "
        assert message.question == dns.message.from_wire(wire).question
    assert not chain.requests
    assert not spine.refused


def test_class_is_judged_before_the_edns_version() -> None:
    spine = Spine({".": Recorder(FOUND)})
    wire = query("version.bind", "TXT", rdclass="CH", use_edns=1).to_wire()
    assert spine.summary(wire) == "1 REFUSED qr rd |  |  | "


def test_notify_goes_through_the_chain() -> None:
    """The opcode stays, RD is cleared, as CoreDNS does."""
    chain = Recorder(reply(aa=True))
    asked = query("example.org", "SOA")
    asked.set_opcode(dns.opcode.NOTIFY)
    found = Spine({".": chain}).answer(asked.to_wire())
    assert found is not None
    assert found[2:4] == bytes.fromhex("a400")
    assert dns.message.from_wire(found).opcode() == dns.opcode.NOTIFY
    assert len(chain.requests) == 1


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        pytest.param(FOUND, "1 NOERROR qr aa rd | www.example.org. 60 IN A 192.0.2.80 |  | ", id="answer"),
        pytest.param(unwritten(2, "no next plugin"), "1 SERVFAIL qr rd |  |  | ", id="unwritten"),
        pytest.param(unwritten(5), "1 REFUSED qr rd |  |  | ", id="unwritten-refused"),
        pytest.param(
            reply(
                authority=["example.org. 30 IN SOA ns.example.org. root.example.org. 1 2 3 4 5"],
                additional=["ns.example.org. 7 IN A 192.0.2.1"],
                rcode=3, aa=True, ra=True,
            ),
            "1 NXDOMAIN qr aa rd ra |  | example.org. 30 IN SOA ns.example.org. root.example.org. 1 2 3 4 5 "
            "| ns.example.org. 7 IN A 192.0.2.1",
            id="every-section",
        ),
    ],
)  # fmt: skip
def test_reply(answer: Reply, expected: str) -> None:
    assert Spine({".": Recorder(answer)}).summary(query("www.example.org").to_wire()) == expected


def test_dropped_reply_is_silence() -> None:
    assert Spine({".": Recorder(Reply(dropped=True))}).answer(query().to_wire()) is None


@pytest.mark.parametrize(
    ("protocol", "payload", "flags", "most"),
    [
        pytest.param("udp", None, "qr tc rd", 512, id="udp"),
        pytest.param("udp", 1232, "qr tc rd", 1232, id="udp-edns"),
        pytest.param("udp", 4096, "qr rd", 4096, id="udp-large-edns"),
        pytest.param("tcp", None, "qr rd", 65535, id="tcp"),
        pytest.param("tcp", 512, "qr rd", 65535, id="tcp-small-edns"),
    ],
)
def test_limit_is_that_of_the_client(
    protocol: str, payload: int | None, flags: str, most: int
) -> None:
    answer = reply([f"www.example.org. 60 IN A 192.0.2.{number}" for number in range(100)])
    options: dict[str, Any] = {} if payload is None else {"use_edns": 0, "payload": payload}
    spine = Spine({".": Recorder(answer)})
    found = spine.answer(query("www.example.org", **options).to_wire(), protocol)
    assert found is not None
    assert len(found) <= most
    assert dns.flags.to_text(dns.message.from_wire(found).flags).lower() == flags


# --- what goes wrong ---


@pytest.mark.parametrize(
    "chain",
    [
        pytest.param(Recorder(RuntimeError("broken")), id="raises"),
        pytest.param(Recorder(RecursionError("too deep")), id="recursion"),
        pytest.param(
            Recorder(Reply(answer=(rr("example.org. 60 IN A 192.0.2.1")._replace(ttl=-1),), aa=True)),
            id="record-that-cannot-be-written",
        ),
    ],
)  # fmt: skip
def test_error_in_a_handler_is_servfail(chain: Recorder, caplog: pytest.LogCaptureFixture) -> None:
    spine = Spine({".": chain})
    with caplog.at_level(logging.ERROR, "hsdns"):
        assert spine.summary(query("example.org").to_wire()) == "1 SERVFAIL qr rd |  |  | "
    assert spine.panics == 1
    assert [answer for _, answer in spine.refused] == [unwritten(2)]
    assert [record.getMessage() for record in caplog.records] == [
        "recovered from an error in a handler, asked for example.org."
    ]
    assert caplog.records[0].exc_info is not None
    chain.answer = FOUND
    assert spine.summary(query("www.example.org").to_wire()).startswith("1 NOERROR")


@pytest.mark.parametrize(
    ("depth", "rcode", "error"),
    [
        pytest.param(MAX_DEPTH, 0, None, id="deepest"),
        pytest.param(MAX_DEPTH + 1, 2, "a.example.org. leads through more than 8 lookups", id="too-deep"),
    ],
)  # fmt: skip
def test_depth(depth: int, rcode: int, error: str | None) -> None:
    chain = Recorder(FOUND)
    found = finish(
        Spine({".": chain}).processor.resolve(make_request("a.example.org", depth=depth))
    )
    assert (found.rcode, found.error) == (rcode, error)
    assert len(chain.requests) == (error is None)


def test_lookups_that_lead_back_end() -> None:
    """A block whose every answer asks the server again, as two ExternalNames that name each other do."""
    asked = 0

    async def again(request: Request) -> Reply:
        nonlocal asked
        asked += 1
        return await spine.processor.resolve(request.replace(depth=request.depth + 1))

    spine = Spine({".": again})
    assert spine.summary(query().to_wire()) == "1 SERVFAIL qr rd |  |  | "
    assert asked == MAX_DEPTH + 1
    assert not spine.panics


def test_own_lookup_is_routed_like_any_other() -> None:
    inner, outer = Recorder(FOUND), Recorder(unwritten(2))
    spine = Spine({"example.org": inner, ".": outer})
    request = make_request("www.example.org", zone=".", depth=1, edns=Edns(1232))
    assert finish(spine.processor.resolve(request)) == FOUND
    assert inner.requests[0].zone == Name.from_text("example.org")
    assert not outer.requests


# --- the answer table ---


class Notebook:
    """A keeper that writes down what it is asked and told; it knows one question."""

    def __init__(self, known: bytes | None = None, answer: bytes | None = None) -> None:
        self.table = self
        self.lookups: list[tuple[bytes, bool, int, float]] = []
        self.notes: list[tuple[bytes, Reply, bytes]] = []
        self.made: list[object] = []
        self._known, self._answer = known, answer

    def lookup(self, wire: bytes, *, v6: bool, limit: int, now: float) -> bytes | None:
        self.lookups.append((wire, v6, limit, now))
        return self._answer if wire == self._known else None

    def reads(self) -> object:
        self.made.append(object())
        return self.made[-1]

    def note(self, wire: bytes, query: object, reply: Reply, out: bytes, reads: object) -> None:
        assert reads is self.made[-1]
        self.notes.append((wire, reply, out))


def keeping(chain: Recorder, notebook: Notebook, *, zone: str = ".") -> Spine:
    spine = Spine({zone: chain})
    spine.processor.keeper = notebook  # type: ignore[assignment]  # it stands in for one
    return spine


FRESH = FOUND.replace(fresh=True)


def test_the_edges_ask_the_table() -> None:
    notebook = Notebook(b"a query", b"an answer")
    lookup = keeping(Recorder(FRESH), notebook).processor.lookup
    assert lookup is not None
    assert lookup(b"a query", v6=False, limit=65535, now=5.0) == b"an answer"
    assert Spine({".": Recorder(FRESH)}).processor.lookup is None


@pytest.mark.parametrize("protocol", ["udp", "tcp"])
def test_the_table_was_asked_before(protocol: str) -> None:
    wire = query("www.example.org").to_wire()
    notebook = Notebook(wire, b"an answer")
    chain = Recorder(FRESH)
    keeping(chain, notebook).answer(wire, protocol)
    assert len(chain.requests) == 1
    assert notebook.lookups == []


@pytest.mark.parametrize("protocol", ["udp", "tcp"])
def test_fresh_reply_is_noted_with_what_it_read(protocol: str) -> None:
    chain, notebook = Recorder(FRESH), Notebook()
    wire = query("www.example.org").to_wire()
    out = keeping(chain, notebook).answer(wire, protocol)
    assert notebook.notes == [(wire, FRESH, out)]
    assert [request.reads for request in chain.requests] == notebook.made


@pytest.mark.parametrize(
    ("sent", "answer"),
    [
        pytest.param(query("www.example.org").to_wire(), FOUND, id="not-fresh"),
        pytest.param(query("www.example.net").to_wire(), FRESH, id="no-block"),
        pytest.param(query("www.example.org", rdclass="CH").to_wire(), FRESH, id="class"),
        pytest.param(query("www.example.org", use_edns=1).to_wire(), FRESH, id="edns-version"),
        pytest.param(query("www.example.org").to_wire()[:-1], FRESH, id="formerr"),
        pytest.param(query("www.example.org").to_wire(), RuntimeError("broken"), id="raises"),
        pytest.param(query("www.example.org").to_wire(), FRESH.replace(dropped=True), id="dropped"),
        pytest.param(
            query("example.org").to_wire(),
            Reply(answer=(rr("example.org. 60 IN A 192.0.2.1")._replace(ttl=-1),), fresh=True),
            id="cannot-be-written",
        ),
    ],
)  # fmt: skip
def test_what_is_not_noted(sent: bytes, answer: Reply | Exception) -> None:
    notebook = Notebook()
    keeping(Recorder(answer), notebook, zone="example.org").answer(sent)
    assert notebook.notes == []


def test_without_a_table_nobody_reads_along() -> None:
    chain = Recorder(FRESH)
    Spine({".": chain}).answer(query().to_wire(), "tcp")
    assert [request.reads for request in chain.requests] == [None]
