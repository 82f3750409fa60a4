"""A query to an upstream with its reply or its error; its health, and the order of several."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

import dns.edns
import dns.flags
import dns.message
import pytest

from hsdns import eager
from hsdns.server.runtime import Queries
from hsdns.upstream.connection import StreamConnection
from hsdns.upstream.exchange import Policy, Upstream, UpstreamError, UpstreamOverload
from hsdns.upstream.target import HTTP2, HealthCheck, Target, UpstreamSettings
from hsdns.wire.decode import WrongQuestion
from hsdns.wire.edns import Edns
from hsdns.wire.iana import Rcode, RRType
from hsdns.wire.message import CD, RD, Query, Reply
from hsdns.wire.name import Name
from tests.support.coroutines.scripted_timeouts import script_timeouts, silence_until_timeout
from tests.support.plugins.requests import section
from tests.support.plugins.runtime import FakeRuntime
from tests.support.tables import values
from tests.support.upstreams.certificate import Certificate, make_certificate
from tests.support.upstreams.dns_upstream import OTHER_LOOPBACK, Answer, answer, serve, silence
from tests.support.upstreams.doh_upstream import serve_doh

TABLES = Path(__file__).with_name("tables.txt")

A = "www.example.org. 5 IN A 192.0.2.1"
QUERY = Query.ask(Name.from_text("www.example.org."), RRType.A)
FOUND = answer(A)
# A test of silence waits this long, every other one never: long enough for a busy machine to get the reply.
SHORT, LONG = 0.05, 5.0


def upstream_of(runtime: FakeRuntime, port: int, **options: Any) -> Upstream:
    target = options.pop("target", None) or Target("dns", "127.0.0.1", port)
    tls = options.pop("tls", None)
    settings = UpstreamSettings(**{"read_timeout": LONG, **options})
    return Upstream(target, runtime, settings, tls)


async def ask(
    script: Answer,
    *,
    protocol: str = "udp",
    query: Query = QUERY,
    runtime: FakeRuntime | None = None,
    **options: Any,
) -> tuple[Reply, Sequence[bytes]]:
    """Query a server with this script; return its reply and what it received."""
    async with serve(script, script) as server:
        upstream = upstream_of(runtime or FakeRuntime(), server.port, **options)
        try:
            reply = await upstream.ask(query, protocol, LONG)
        finally:
            upstream.close()
        return reply, server.udp if protocol == "udp" else server.tcp


@pytest.mark.parametrize("protocol", ["udp", "tcp"])
def test_ask(protocol: str) -> None:
    runtime = FakeRuntime()
    edns = Edns(1400, do=True, options=((8, b"\0\1\x18\0\x0a\0\0"),))
    query = QUERY.replace(flags=RD | CD, edns=edns)
    reply, seen = asyncio.run(ask(FOUND, protocol=protocol, query=query, runtime=runtime))
    assert section(reply.answer) == [A]
    assert (reply.rcode, reply.aa, reply.ra, reply.tc) == (Rcode.NOERROR, False, True, False)
    (wire,) = seen
    message = dns.message.from_wire(wire)
    assert message.flags & (dns.flags.RD | dns.flags.CD) == dns.flags.RD | dns.flags.CD
    assert (message.payload, bool(message.ednsflags & dns.flags.DO)) == (1400, True)
    assert [option.otype for option in message.options] == [8]
    durations = runtime.metrics.histogram("coredns_proxy_request_duration_seconds", ())
    ((labels, cells),) = durations.values.items()
    assert (labels[0], labels[1].partition(":")[0], labels[2]) == (
        "forward",
        "127.0.0.1",
        "NOERROR",
    )
    assert sum(cells[:-1]) == 1


def wrong_question(wire: bytes) -> list[bytes]:
    return [FOUND(wire)[0].replace(b"\3www", b"\3ftp", 1)]


def as_query(wire: bytes) -> list[bytes]:
    return [wire]


def header_only(wire: bytes) -> list[bytes]:
    """Reply as servers do that cannot read the question."""
    return [wire[:2] + b"\x80\x01" + bytes(8)]


@pytest.mark.parametrize(
    ("script", "protocol"),
    [(wrong_question, "tcp"), (as_query, "tcp"), (header_only, "tcp"), (header_only, "udp")],
    ids=["question", "query", "no-question", "no-question-udp"],
)
def test_wrong_replies(script: Answer, protocol: str) -> None:
    with pytest.raises(WrongQuestion):
        asyncio.run(ask(script, protocol=protocol))


def forged_of(runtime: FakeRuntime) -> dict[tuple[str, ...], float]:
    return runtime.metrics.counter("hsdns_forward_forged_total", ("to",)).values


@pytest.mark.parametrize(
    ("over_tcp", "error"),
    [
        (FOUND, None),
        (wrong_question, "sent a reply to another question over TCP"),
        (silence, "closed the connection over TCP, after forged replies"),
    ],
    ids=["answered", "wrong-question", "closed"],
)
async def test_a_name_with_many_forged_replies_goes_over_tcp(
    over_tcp: Answer, error: str | None
) -> None:
    """Sixteen in a second; the seventeenth might have been right."""

    def forge(wire: bytes) -> list[bytes]:
        return [bytes((wire[0] ^ 1,)) + FOUND(wire)[0][1:]] * 16

    async with serve(forge, over_tcp, closes=True) as server:
        runtime = FakeRuntime()
        upstream = upstream_of(runtime, server.port)
        asked = [upstream.ask(QUERY.replace(id=k), "udp", LONG) for k in range(3)]
        for result in await asyncio.gather(*asked, return_exceptions=True):
            if error is None:
                assert isinstance(result, Reply)
                assert (result.rcode, section(result.answer)) == (Rcode.NOERROR, [A])
            else:
                assert error in str(result)
        assert (len(server.udp), len(server.tcp)) == (1, 1)
        assert forged_of(runtime) == {(f"127.0.0.1:{server.port}",): 16}
        upstream.close()


@pytest.mark.parametrize("protocol", ["udp", "tcp"])
def test_cookies_end_here(protocol: str) -> None:
    def script(wire: bytes) -> list[bytes]:
        message = dns.message.make_response(dns.message.from_wire(wire))
        cookie = dns.edns.GenericOption(dns.edns.OptionType.COOKIE, bytes(16))
        message.use_edns(options=[cookie, dns.edns.GenericOption(dns.edns.OptionType.NSID, b"ns1")])
        return [message.to_wire()]

    edns = Edns(1232, options=((10, bytes(8)), (3, b"")))
    reply, seen = asyncio.run(ask(script, protocol=protocol, query=QUERY.replace(edns=edns)))
    assert [option.otype for option in dns.message.from_wire(seen[0]).options] == [3]
    assert reply.edns_options == ((3, b"ns1"),)


@pytest.mark.parametrize(
    ("sent", "returned", "for_all"),
    [
        pytest.param((), (), True, id="none"),
        pytest.param((8,), (), False, id="not-returned"),
        pytest.param((8,), (b"\0\1\x18\x18\xc0\0\2",), False, id="for-a-network"),
        pytest.param((8,), (b"\0\1\x18\0\xc0\0\2",), True, id="for-all-networks"),
        pytest.param((8,), (b"\0\1",), False, id="cut"),
    ],
)
def test_a_reply_for_a_client_subnet_is_for_no_other_query(
    sent: tuple[int, ...], returned: tuple[bytes, ...], for_all: bool
) -> None:
    def script(wire: bytes) -> list[bytes]:
        opt = b"".join(b"\0\x08" + len(each).to_bytes(2, "big") + each for each in returned)
        head = wire[:2] + b"\x81\x80" + wire[4:10] + b"\0\1"
        return [
            head
            + QUERY.question_wire
            + b"\0\0\x29\x10\0"
            + bytes(4)
            + len(opt).to_bytes(2, "big")
            + opt
        ]

    subnet = b"\0\1\x18\0\xc0\0\2"
    query = QUERY.replace(edns=Edns(1232, options=tuple((code, subnet) for code in sent)))
    reply, seen = asyncio.run(ask(script, query=query))
    assert seen[0].endswith(subnet) == bool(sent)
    assert (reply.still_holds is None) == for_all
    assert reply.still_holds is None or not reply.still_holds()


@pytest.mark.parametrize(
    ("keeps_case", "over_tcp"), [(True, 0), (False, 1)], ids=["kept", "lowered"]
)
async def test_use_caps_for_id(keeps_case: bool, over_tcp: int) -> None:
    """The name comes in a random case and must return in it; neither the client nor the cache sees it."""
    asked = Query.ask(
        Name.from_text("wWw.abcdefghijklmnopqrstuvwxyz.abcdefghij.example."), RRType.MX
    )

    def script(wire: bytes) -> list[bytes]:
        found = wire if keeps_case else wire.lower()
        record = b"\xc0\x0c" + bytes((0, 15, 0, 1, 0, 0, 0, 5, 0, 4, 0, 10, 0xC0, 0x10))
        return [wire[:2] + b"\x81\x80" + wire[4:6] + b"\0\1" + bytes(4) + found[12:] + record]

    async with serve(script, script) as server:
        upstream = upstream_of(FakeRuntime(), server.port, use_caps_for_id=True)
        reply = await upstream.ask(asked, "udp", LONG)
        ((owner, *_, rdata, _),) = reply.answer
        assert owner.lower == asked.qname.lower
        assert rdata == b"\0\x0a" + asked.qname.lower[4:]
        (wire,) = server.udp
        assert wire[12:-4].lower() == asked.qname.lower
        assert wire[12:-4] not in (asked.qname.wire, asked.qname.lower)
        assert len(server.tcp) == over_tcp
        upstream.close()


def long_reply(wire: bytes) -> list[bytes]:
    return answer(*(f"www.example.org. 5 IN A 192.0.2.{k}" for k in range(1, 40)), flags=0x480)(
        wire
    )


def cut_reply(wire: bytes) -> list[bytes]:
    return [FOUND(wire)[0][:-3]]


@pytest.mark.parametrize(
    ("script", "aa"), [(long_reply, True), (cut_reply, False)], ids=["too-long", "cut"]
)
def test_udp_overflow_becomes_an_empty_reply_with_tc(script: Answer, aa: bool) -> None:
    reply, _ = asyncio.run(ask(script))
    assert reply == Reply(aa=aa, ra=True, tc=True)


SILENT = silence_until_timeout(SHORT)
LATE = "{} did not reply over PROTOCOL within 0.05s: i/o timeout"
CUT = "{} sent a malformed reply over PROTOCOL: reply ends in the middle of a record"


@pytest.mark.parametrize(
    ("script", "protocol", "limits", "sentence"),
    [
        pytest.param(SILENT, "udp", (SHORT, LONG), LATE, id="udp-silence"),
        pytest.param(SILENT, "tcp", (SHORT, LONG), LATE, id="tcp-silence"),
        pytest.param(SILENT, "udp", (LONG, SHORT), LATE, id="a-smaller-budget"),
        pytest.param(cut_reply, "tcp", (LONG, LONG), CUT, id="tcp-cut"),
    ],
)
async def test_errors(
    script: Answer,
    protocol: str,
    limits: tuple[float, float],
    sentence: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    script_timeouts(monkeypatch)
    async with serve(script, script) as server:
        upstream = upstream_of(FakeRuntime(), server.port, read_timeout=limits[0])
        with pytest.raises(UpstreamError) as caught:
            await upstream.ask(QUERY, protocol, limits[1])
        expected = sentence.format(f"127.0.0.1:{server.port}").replace("PROTOCOL", protocol)
        assert str(caught.value) == expected
        assert len(upstream.pool) == len(upstream.udp) == 0
        upstream.close()


@pytest.mark.parametrize(
    ("script", "sentence"),
    [
        pytest.param(None, "{} closed the connection (tcp)", id="closes"),
        pytest.param(cut_reply, CUT.replace("PROTOCOL", "tcp"), id="cut"),
    ],
)
async def test_a_fault_of_an_upstream_over_tcp_is_no_error_of_this_server(
    script: Answer | None, sentence: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Also where the query has no task, so that the exchange gets one."""

    def close(wire: bytes) -> list[bytes]:
        server.connections[-1].close()
        return []

    async with serve(silence, script or close) as server, asyncio.timeout(LONG):
        tasks, runtime = Queries(), FakeRuntime()
        runtime.queries = tasks
        target = Target("dns", "127.0.0.1", server.port)
        upstream = Upstream(target, runtime, UpstreamSettings())
        over: asyncio.Future[str | None] = asyncio.get_running_loop().create_future()

        async def ask_it() -> str | None:
            try:
                await upstream.ask(QUERY, "tcp", LONG)
            except UpstreamError as error:
                return str(error)
            return None

        asyncio.get_running_loop().call_soon(eager.start, ask_it(), over.set_result, tasks.spawn)
        assert await over == sentence.format(f"127.0.0.1:{server.port}")
        upstream.close()
        await tasks.wait()
    assert caplog.messages == []


def reuse_counts(runtime: FakeRuntime, protocol: str) -> tuple[float, float]:
    """Return how many connections were reused and opened."""
    totals = []
    for name in ("hits", "misses"):
        counter = runtime.metrics.counter(f"coredns_proxy_conn_cache_{name}_total")
        totals.append(
            sum(value for labels, value in counter.values.items() if labels[-1] == protocol)
        )
    return totals[0], totals[1]


@pytest.mark.parametrize(
    ("protocol", "closes", "seconds", "options", "counts", "connections"),
    [
        pytest.param("udp", False, 1.0, {}, (2, 1), 0, id="udp"),
        pytest.param("tcp", False, 1.0, {}, (2, 1), 1, id="tcp"),
        pytest.param("tcp", False, 11.0, {}, (0, 3), 3, id="expired"),
        pytest.param("tcp", False, 8.0, {"max_age": 15.0}, (1, 2), 2, id="old"),
        pytest.param("tcp", True, 1.0, {}, (0, 3), 3, id="closed-by-upstream"),
    ],
)
async def test_connections_are_reused(
    protocol: str,
    closes: bool,
    seconds: float,
    options: dict[str, float],
    counts: tuple[int, int],
    connections: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    runtime, lost = FakeRuntime(), asyncio.Event()

    class Observed(StreamConnection):
        def connection_lost(self, exc: Exception | None) -> None:
            super().connection_lost(exc)
            lost.set()

    monkeypatch.setattr("hsdns.upstream.connection.StreamConnection", Observed)
    async with serve(FOUND, FOUND, closes=closes) as server, asyncio.timeout(LONG):
        upstream = upstream_of(runtime, server.port, **options)
        for _ in range(3):
            assert section((await upstream.ask(QUERY, protocol, LONG)).answer) == [A]
            runtime.time += seconds
            if closes:
                await lost.wait()
                lost.clear()
        upstream.close()
        assert len(server.connections) == connections
        assert reuse_counts(runtime, protocol) == counts


@pytest.mark.parametrize(("name", "is_trusted", "sentence"), values(TABLES, "tls"))
async def test_tls(name: str, is_trusted: bool, sentence: str | None, tmp_path: Path) -> None:
    certificate = make_certificate(tmp_path, "dns.example.net")
    context = ssl.create_default_context(cafile=certificate.cert if is_trusted else None)
    runtime = FakeRuntime()
    async with serve(tcp=FOUND, tls=certificate.server_context()) as server:
        target = Target("tls", "127.0.0.1", server.port, name)
        upstream = upstream_of(runtime, 0, target=target, tls=context)
        if sentence is None:
            for _ in range(2):
                assert section((await upstream.ask(QUERY, "udp", LONG)).answer) == [A]
            assert reuse_counts(runtime, "tcp-tls") == (1, 1)
            assert await upstream._probe()
        else:
            with pytest.raises(UpstreamError, match=f"invalid certificate: {sentence}"):
                await upstream.ask(QUERY, "udp", LONG)
            assert not await upstream._probe()
        upstream.close()


@pytest.mark.parametrize(
    ("check", "force_tcp", "name", "rd"),
    [
        pytest.param(HealthCheck(), False, ".", True, id="default"),
        pytest.param(HealthCheck(), True, ".", True, id="force-tcp"),
        pytest.param(
            HealthCheck(0.5, False, Name.from_text("example.org.")),
            False,
            "example.org.",
            False,
            id="options",
        ),
    ],
)
async def test_probe(check: HealthCheck, force_tcp: bool, name: str, rd: bool) -> None:
    """Any reply counts, even one to another question."""
    script: Answer = lambda wire: [wire[:2] + b"\x80\5" + bytes(8)]  # noqa: E731 - a script is a value here
    async with serve(script, script) as server:
        upstream = upstream_of(FakeRuntime(), server.port, health_check=check, force_tcp=force_tcp)
        assert await upstream._probe()
        (wire,) = server.tcp if force_tcp else server.udp
    message = dns.message.from_wire(wire)
    assert message.question[0].to_text() == f"{name} IN NS"
    assert bool(message.flags & dns.flags.RD) == rd


# --- errors say how often and since when ---


# --- limits of connections ---


async def test_queries_and_probes_come_from_the_source_address() -> None:
    async with serve(tcp=FOUND) as server:
        upstream = upstream_of(
            FakeRuntime(), server.port, source_address=OTHER_LOOPBACK, force_tcp=True
        )
        await upstream.ask(QUERY, "tcp", LONG)
        assert await upstream._probe()
        peers = [made.get_extra_info("peername")[0] for made in server.connections]
        assert peers == [OTHER_LOOPBACK] * 2
        upstream.close()


# --- over HTTPS ---


def https_context(certificate: Certificate) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=certificate.cert)
    context.set_alpn_protocols(list(HTTP2))
    return context


@pytest.mark.parametrize("method", ["POST", "GET"])
async def test_https(method: str, tmp_path: Path) -> None:
    certificate = make_certificate(tmp_path, "dns.example.net")
    runtime = FakeRuntime()
    async with serve_doh(FOUND, certificate) as server:
        upstream = upstream_of(
            runtime,
            0,
            target=Target("https", "127.0.0.1", server.port, "dns.example.net"),
            tls=https_context(certificate),
            doh_method=method,
        )
        for protocol in ("udp", "tcp"):
            reply = await upstream.ask(QUERY, protocol, LONG)
            assert section(reply.answer) == [A]
            assert (reply.rcode, reply.ra, reply.tc) == (Rcode.NOERROR, True, False)
        assert reuse_counts(runtime, "https") == (1, 1)
        assert [asked.method for asked in server.asked] == [method] * 2
        assert {asked.message[:2] for asked in server.asked} == {b"\0\0"}
        assert await upstream._probe()
        assert (len(server.connections), server.asked[-1].method) == (2, "POST")
        upstream.close()


async def test_queries_over_streams_have_a_share_of_the_process(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    one, other = (upstream_of(FakeRuntime(), port) for port in (1, 2))
    replied = asyncio.Event()

    async def exchange(*_: object) -> Reply:
        await replied.wait()
        return Reply()

    for each in (one, other):
        monkeypatch.setattr(each, "_exchange", exchange)
    monkeypatch.setattr(Upstream._streams, "most", 2)
    waiting = [asyncio.create_task(one.ask(QUERY, "tcp", LONG)) for _ in range(2)]
    await asyncio.sleep(0)
    with pytest.raises(UpstreamOverload, match=r"127\.0\.0\.1:2 is not queried"):
        await other.ask(QUERY, "tcp", LONG)
    waiting.pop().cancel()
    await asyncio.sleep(0)
    replied.set()
    assert await other.ask(QUERY, "tcp", LONG) == await waiting.pop() == Reply()
    assert Upstream._streams.used == 0


@pytest.mark.parametrize(
    ("name", "orders"), [("sequential", ["abc"] * 4), ("round_robin", ["bac", "cab", "abc", "bac"])]
)
def test_orders(name: str, orders: list[str]) -> None:
    """That of round_robin begins with the second, and rotates nothing else."""
    policy = Policy(name, Random(1))
    assert ["".join(policy.order(["a", "b", "c"])) for _ in range(4)] == orders
    assert list(policy.order(["a"])) == ["a"]
