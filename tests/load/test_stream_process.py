"""Loads of hsdns over each transport, in the process that sends; none takes more than 0.2 s."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from hsdns.load.connection_facts import ConnectionCounts
from hsdns.load.errors import LoadError
from hsdns.load.outcome import CONNECTIONS, END, OUTCOMES, REPLY, Outcome, unpack_outcomes
from hsdns.load.plan import Plan
from hsdns.load.sender_process import SenderProcess
from hsdns.load.stream_plan import DOH, DOT, GET, TCP, StreamPlan
from hsdns.load.stream_process import maker
from hsdns.wire.decode import decode_reply
from hsdns.wire.encode import encode_query
from hsdns.wire.iana import Rcode, RRType
from hsdns.wire.message import Query
from hsdns.wire.name import Name
from tests.load.stream_servers import NAME, Ports, hsdns

QUERIES = [
    Query.ask(Name.from_text(f"{name}.ns-0.svc.cluster.local."), RRType.A)
    for name in ("svc-0", "none")
]

pytestmark = [pytest.mark.sockets, pytest.mark.slow]


@pytest.fixture(scope="module")
def ports(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ports]:
    with hsdns(
        tmp_path_factory.mktemp("hsdns"), "synthetic", "services=1", "endpoints=1", "headless=0"
    ) as found:
        yield found


def load(
    ports: Ports, streams: StreamPlan, queries: list[Query] = QUERIES
) -> tuple[list[Outcome], dict[int, bytes], ConnectionCounts]:
    port = {TCP: ports.tcp, DOT: ports.dot, DOH: ports.doh}[streams.transport]
    plan = Plan(
        socket.AF_INET,
        ("127.0.0.1", port),
        [encode_query(each, 0)[2:] for each in queries],
        [],
        1,
        [(0.1, 200.0, 200.0)],
        "even",
        1,
        5_000_000_000,
        1,
        True,
        streams=streams,
    )
    outcomes: list[Outcome] = []
    replies: dict[int, bytes] = {}
    counts = ConnectionCounts()
    with SenderProcess(plan) as process:
        process.prepare()
        process.start(time.monotonic_ns() + 20_000_000)
        is_over = False
        while not is_over:
            for kind, content in process.messages(10.0):
                if kind == OUTCOMES:
                    outcomes += [Outcome(*each) for each in unpack_outcomes(content)]
                elif kind == REPLY:
                    replies[int.from_bytes(content[4:8], "big")] = b"\0\0" + content[8:]
                elif kind == CONNECTIONS:
                    counts.add(content)
                is_over |= kind == END
    return outcomes, replies, counts


@pytest.mark.parametrize("queries", [0, 1, 6])
@pytest.mark.parametrize(
    "streams", [StreamPlan(TCP), StreamPlan(DOT), StreamPlan(DOH), StreamPlan(DOH, method=GET)]
)
def test_a_load(ports: Ports, streams: StreamPlan, queries: int) -> None:
    ca = str(ports.certificate.cert) if streams.is_encrypted else ""
    name = NAME if streams.is_encrypted else ""
    plan = msgspec.structs.replace(
        streams, connections=4, queries=queries, tls_ca=ca, tls_name=name
    )
    outcomes, replies, counts = load(ports, plan)
    assert len(outcomes) == 20
    assert (
        sorted((each.question, each.flags & 15) for each in outcomes)
        == [(0, 0)] * 10 + [(1, 3)] * 10
    )
    assert all(each.planned <= each.sent < each.received for each in outcomes)
    for number, rcode in enumerate((Rcode.NOERROR, Rcode.NXDOMAIN)):
        reply = decode_reply(replies[number], QUERIES[number])
        assert (reply.rcode, reply.aa, reply.ra, reply.tc) == (rcode, True, False, False)
        assert [(each.rrtype, each.ttl) for each in reply.answer] == [(RRType.A, 5)] * (not number)
        assert [each.rrtype for each in reply.authority] == [RRType.SOA] * number
        assert not reply.additional
    assert (counts.not_opened, counts.failed, counts.late, counts.again) == ({}, {}, 0, 0)
    assert counts.opened == {0: 4, 1: 20, 6: 4}[queries]
    assert counts.open == 0


def test_a_certificate_for_another_name(ports: Ports) -> None:
    plan = StreamPlan(DOT, connections=1, tls_ca=str(ports.certificate.cert), tls_name="other.test")
    outcomes, _, counts = load(ports, plan)
    assert {each.received for each in outcomes} == {0}
    assert list(counts.not_opened) == [
        "TLS: Hostname mismatch, certificate is not valid for 'other.test'"
    ]


def test_another_path(ports: Ports) -> None:
    outcomes, _, counts = load(
        ports, StreamPlan(DOH, connections=1, tls_insecure=True, path="/dns")
    )
    assert {each.received for each in outcomes} == {0}
    assert (counts.failed, counts.opened) == ({"HTTP status 404": 20}, 1)


def test_files_are_read_at_once(tmp_path: Path) -> None:
    with pytest.raises(LoadError, match=r"^-tls-ca: there is no file "):
        maker(StreamPlan(DOT, tls_ca=str(tmp_path / "none")), ("127.0.0.1", 853))


def test_truncated_answers_are_asked_again_over_tcp(tmp_path: Path) -> None:
    """A headless Service with 60 endpoints does not fit into 512 octets."""
    with hsdns(tmp_path, "synthetic", "services=2", "endpoints=60", "headless=1") as ports:
        name = Name.from_text("svc-1.ns-0.svc.cluster.local.")
        truncated = [Query.ask(name, RRType.A)]
        outcomes, _, counts = load(ports, StreamPlan(TCP, 2, queries=5, for_truncated=True), truncated)  # fmt: skip
    assert len(outcomes) == 20
    assert {each.flags for each in outcomes} == {0x8500}
    assert all(each.planned <= each.sent < each.received for each in outcomes)
    assert (counts.fell, counts.opened, counts.again, counts.not_opened) == (20, 4, 0, {})
