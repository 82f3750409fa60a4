from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import dns.flags
import pytest

from hsdns.chain import WaitsInTask
from hsdns.corefile.tree import CorefileError
from hsdns.plugins.forward import Forward
from hsdns.upstream.exchange import PROBE_TIMEOUT, HealthCheck, UpstreamSettings
from hsdns.upstream.target import HostTarget, Target
from hsdns.wire.iana import Rcode
from hsdns.wire.message import Reply, unwritten
from hsdns.wire.name import Name
from tests.support.coroutines.scripted_timeouts import expire_timeouts, script_timeouts
from tests.support.plugins.requests import make_request, next_with, reply, section
from tests.support.plugins.runtime import FakeRuntime
from tests.support.plugins.setup import set_up
from tests.support.upstreams.certificate import make_certificate
from tests.support.upstreams.dns_upstream import OTHER_LOOPBACK, Answer, Upstream, answer, serve
from tests.support.upstreams.doh_upstream import serve_doh


def test_defaults() -> None:
    (route,) = set_up(Forward, "forward . 10.0.0.2").routes
    assert [str(target) for target in route.targets] == ["10.0.0.2:53"]
    assert route.zone == Name.from_text(".")
    assert (route.excepted, route.prefer_udp, route.resolvers) == ((), False, ())
    assert (route.max_fails, route.max_attempts, route.max_concurrent) == (2, None, 0)
    assert (route.failover, route.next_rcodes) == (frozenset(), frozenset())
    assert (route.next_on_nodata, route.failfast) == (False, False)
    assert (route.policy_name, route.contexts) == ("random", {})
    assert route.settings == UpstreamSettings(
        10.0, 0.0, 0, 2.0, False, HealthCheck(0.5, True), None, "POST"
    )


def test_options() -> None:
    (route,) = set_up(
        Forward,
        """forward Example.org 10.0.0.2 tls://10.0.0.3 10.0.0.2:53 {
            except a.example.org b.example.org
            except 10.0.0.0/8
            force_tcp
            prefer_udp
            expire 1m
            max_fails 0
            max_concurrent 1000
            policy sequential
            health_check 1.5s no_rec domain example.net
            tls_servername dns.example.net
            max_age 2m
            max_idle_conns 7
            read_timeout 1500ms
            max_connect_attempts 3
            failfast_all_unhealthy_upstreams
            failover servfail REFUSED
            failover BADSIG
            next NXDOMAIN NoError
            next NOTIMPL
            next_on_nodata
            doh_method GET
            use_caps_for_id
            source_address 10.0.0.9
            resolver 10.0.0.5 [2001:db8::5]:1053
        }""",
    ).routes
    assert route.zone == Name.from_text("example.org.")
    assert [(str(target), target.server_name) for target in route.targets] == [
        ("10.0.0.2:53", "dns.example.net"),
        ("10.0.0.3:853", "dns.example.net"),
    ]
    assert [zone.to_text() for zone in route.excepted] == [
        "a.example.org.",
        "b.example.org.",
        "10.in-addr.arpa.",
    ]
    assert (route.prefer_udp, route.next_on_nodata, route.failfast) == (True, True, True)
    assert (route.max_fails, route.max_attempts, route.max_concurrent) == (0, 3, 1000)
    assert (route.failover, route.next_rcodes) == (frozenset({2, 5, 16}), frozenset({3, 0, 4}))
    assert route.resolvers == (Target("dns", "10.0.0.5", 53), Target("dns", "2001:db8::5", 1053))
    assert route.policy_name == "sequential"
    check = HealthCheck(1.5, False, Name.from_text("example.net."))
    assert route.settings == UpstreamSettings(
        60.0, 120.0, 7, 1.5, True, check, "10.0.0.9", "GET", True
    )
    assert list(route.contexts) == ["tls"]
    assert isinstance(route.contexts["tls"], ssl.SSLContext)


def test_the_first_of_upstreams_with_one_address_counts() -> None:
    (route,) = set_up(Forward, "forward . tls://10.0.0.2:53 10.0.0.2 dns://10.0.0.2:53").routes
    assert route.targets == (Target("tls", "10.0.0.2", 53),)


def test_a_file_may_name_more_upstreams_than_words_are_allowed(tmp_path: Path) -> None:
    path = tmp_path / "resolv.conf"
    path.write_text("".join(f"nameserver 10.0.0.{k}\n" for k in range(1, 21)))
    (route,) = set_up(Forward, f"forward . {path}").routes
    assert len(route.targets) == 20


def test_resolv_conf(tmp_path: Path) -> None:
    path = tmp_path / "resolv.conf"
    path.write_text("search example.org\nnameserver 10.0.0.2\nnameserver 10.0.0.3\n")
    (route,) = set_up(Forward, f"forward . {path} 10.0.0.3").routes
    assert [str(target) for target in route.targets] == ["10.0.0.2:53", "10.0.0.3:53"]


def test_a_reverse_zone_that_is_several_is_warned_about() -> None:
    warnings: list[str] = []
    (route,) = set_up(Forward, "forward 10.0.0.0/15 10.0.0.2", warnings=warnings).routes
    assert route.zone == Name.from_text("0.10.in-addr.arpa.")
    assert warnings == [
        'Corefile:2:9: "10.0.0.0/15" stands for 2 zones, but forward only uses 0.10.in-addr.arpa.; write one '
        "forward for each"
    ]


# --- which names ---


@pytest.mark.parametrize(
    ("text", "qname", "taken"),
    [
        ("forward . 10.0.0.2", "a.example.org.", True),
        ("forward example.org 10.0.0.2", "A.Example.ORG.", True),
        ("forward example.org 10.0.0.2", "example.org.", True),
        ("forward example.org 10.0.0.2", "notexample.org.", False),
        ("forward example.org 10.0.0.2", "org.", False),
        ("forward . 10.0.0.2 {\nexcept example.org\n}", "a.example.org.", False),
        ("forward . 10.0.0.2 {\nexcept example.org\n}", "example.net.", True),
        ("forward example.org 10.0.0.2 {\nexcept example.org\n}", "example.org.", True),
        ("forward example.org 10.0.0.2 {\nexcept example.org\n}", "a.example.org.", False),
    ],
)
def test_matches(text: str, qname: str, taken: bool) -> None:
    (route,) = set_up(Forward, text).routes
    assert route.matches(Name.from_text(qname)) == taken


@pytest.mark.parametrize(
    ("line", "client_protocol", "protocol"),
    [
        ("", "udp", "udp"),
        ("", "tcp", "tcp"),
        ("force_tcp", "udp", "tcp"),
        ("prefer_udp", "tcp", "udp"),
        ("force_tcp\nprefer_udp", "udp", "tcp"),
    ],
)
def test_protocol(line: str, client_protocol: str, protocol: str) -> None:
    (route,) = set_up(Forward, f"forward . 10.0.0.2 {{\n{line}\n}}").routes
    assert route.protocol(client_protocol) == protocol


@pytest.mark.parametrize(
    ("line", "attempts"),
    [("", 6), ("max_connect_attempts 2", 2), ("max_connect_attempts 0", float("inf"))],
)
def test_attempts(line: str, attempts: float) -> None:
    (route,) = set_up(Forward, f"forward . 10.0.0.2 {{\n{line}\n}}").routes
    assert route.attempts(3) == attempts


def test_contexts_are_those_of_the_transports() -> None:
    text = "forward . tls://10.0.0.2 https://10.0.0.3 dns.example.net"
    (route,) = set_up(Forward, text).routes
    assert list(route.contexts) == ["tls", "https"]
    assert route.contexts["tls"] is not route.contexts["https"]
    assert isinstance(route.targets[2], HostTarget)


def test_a_server_name_is_for_hosts_too() -> None:
    text = "forward . tls://dns.example.net {\ntls_servername a.example\n}"
    (target,) = set_up(Forward, text).routes[0].targets
    assert isinstance(target, HostTarget)
    assert target.at("10.0.0.2") == Target("tls", "10.0.0.2", 853, "a.example")


A = "www.example.org. 5 IN A 192.0.2.1"
FOUND = answer(A)
REFUSED = answer(rcode=Rcode.REFUSED)
READ_TIMEOUT = 0.05  # seconds of no clock: silence() ends the wait
ELSEWHERE = unwritten(Rcode.SERVFAIL, "asked below")

# --- asking ---


class ProbedRuntime(FakeRuntime):
    """A FakeRuntime in which an upstream is probed once at a time."""

    def spawn(self, coro: Coroutine[Any, Any, Any], name: str) -> Awaitable[Any]:
        """Make a task, unless one of the name runs."""
        running = self.tasks.get(name)
        assert running is None or running.done(), f"{name} runs already"
        return super().spawn(coro, name)


class Forwarding:
    """A Forward that has started in front of scripted upstreams; `{0}`, `{1}` in its text are their addresses."""

    def __init__(self, runtime: FakeRuntime, forward: Forward, servers: list[Upstream]) -> None:
        self.runtime, self.forward, self.servers = runtime, forward, servers

    async def ask(self, protocol: str = "udp", qname: str = "www.example.org.") -> Reply:
        request = make_request(qname, protocol=protocol)
        return await self.forward.handle(request, next_with(ELSEWHERE))

    def asked(self, protocol: str = "udp") -> list[int]:
        """How many queries each upstream got, health probes left out."""
        seen = [server.udp if protocol == "udp" else server.tcp for server in self.servers]
        return [sum(b"\3www" in wire for wire in queries) for queries in seen]

    def metric(self, name: str) -> float:
        return self.runtime.metrics.counter(name, "").values[()]


class Forwarder:
    """Starts and stops a Forwarding."""

    def __init__(
        self, text: str, *scripts: tuple[Answer, Answer], read_timeout: float = 5.0
    ) -> None:
        self._text, self._scripts, self._read_timeout = text, scripts, read_timeout
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Forwarding:
        stack = self._stack
        servers = [await stack.enter_async_context(serve(udp, tcp)) for udp, tcp in self._scripts]
        forward = set_up(
            Forward, self._text.format(*(f"127.0.0.1:{server.port}" for server in servers))
        )
        for route in forward.routes:
            route.settings = route.settings._replace(read_timeout=self._read_timeout)
        runtime = ProbedRuntime()
        try:
            await forward.start(runtime)
        except BaseException:
            await stack.aclose()
            raise
        stack.push_async_callback(runtime.stop_tasks)
        stack.push_async_callback(forward.stop)
        return Forwarding(runtime, forward, servers)

    async def __aexit__(self, *details: object) -> None:
        await self._stack.aclose()


@pytest.fixture(autouse=True)
def _no_timeout_ends_by_the_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    script_timeouts(monkeypatch)


def silence(wire: bytes, probe_timeout: float | None = None) -> list[bytes]:
    """Send nothing; the wait for a reply ends now that the query has arrived, that for a health probe only if asked."""
    seconds = READ_TIMEOUT if b"\3www" in wire else probe_timeout
    if seconds is not None:
        expire_timeouts(seconds)
    return []


def large(wire: bytes) -> list[bytes]:
    return answer(flags=dns.flags.TC | dns.flags.RA)(wire)


@pytest.mark.parametrize(
    ("options", "protocol", "scripts", "udp", "tcp", "tc"),
    [
        pytest.param("", "udp", (FOUND, FOUND), 1, 0, False, id="udp"),
        pytest.param("", "tcp", (FOUND, FOUND), 0, 1, False, id="tcp"),
        pytest.param("force_tcp", "udp", (FOUND, FOUND), 0, 1, False, id="force-tcp"),
        pytest.param("prefer_udp", "tcp", (FOUND, FOUND), 1, 0, False, id="prefer-udp"),
        pytest.param("force_tcp\nprefer_udp", "udp", (FOUND, FOUND), 0, 1, False, id="both"),
        pytest.param("", "udp", (large, FOUND), 1, 0, True, id="truncated"),
        pytest.param("prefer_udp", "udp", (large, FOUND), 1, 1, False, id="truncated-prefer-udp"),
    ],
)
def test_protocols(
    options: str, protocol: str, scripts: tuple[Answer, Answer], udp: int, tcp: int, tc: bool
) -> None:
    async def run() -> None:
        async with Forwarder(f"forward . {{0}} {{{{\n{options}\n}}}}", scripts) as found:
            got = await found.ask(protocol)
            assert (got.rcode, got.ra, got.tc) == (Rcode.NOERROR, True, tc)
            assert section(got.answer) == ([] if tc else [A])
            assert (found.asked("udp"), found.asked("tcp")) == ([udp], [tcp])

    asyncio.run(run())


@pytest.mark.parametrize(("protocol", "tcp"), [("tcp", 0), ("udp", 1)])
def test_prefer_udp_takes_what_fits_the_client(protocol: str, tcp: int) -> None:
    """A reply of 1,200 octets over UDP is good for a client on TCP, and cut for one that takes 512."""

    async def run() -> None:
        records = [f"www.example.org. 60 IN A 192.0.2.{host}" for host in range(70)]
        script = answer(*records)
        async with Forwarder("forward . {0} {{\nprefer_udp\n}}", (script, script)) as found:
            got = await found.ask(protocol)
            assert (got.rcode, got.ra, got.tc) == (Rcode.NOERROR, True, False)
            assert section(got.answer) == section(reply(records).answer)
            assert (found.asked("udp"), found.asked("tcp")) == ([1], [tcp])

    asyncio.run(run())


def test_the_upstream_s_reply_is_passed_through() -> None:
    async def run() -> None:
        script = answer(A, flags=dns.flags.AA | dns.flags.AD, rcode=Rcode.NXDOMAIN)
        async with Forwarder("forward . {0}", (script, script)) as found:
            expected = reply([A], rcode=Rcode.NXDOMAIN, aa=True, ra=False, ad=True)
            assert await found.ask() == expected

    asyncio.run(run())


def test_other_names_go_on_and_directives_are_looked_through_in_order() -> None:
    async def run() -> None:
        text = "forward example.org {0} {{\nexcept no.example.org\n}}\nforward example.net {1}\nforward org {1}"
        async with Forwarder(text, (FOUND, FOUND), (REFUSED, REFUSED)) as found:
            for qname, expected in (
                ("www.example.org.", Rcode.NOERROR),
                ("www.example.net.", Rcode.REFUSED),
                ("www.no.example.org.", Rcode.REFUSED),
            ):
                assert (await found.ask(qname=qname)).rcode == expected
            assert await found.ask(qname="www.example.com.") is ELSEWHERE
            assert found.asked() == [1, 2]

    asyncio.run(run())


@pytest.mark.parametrize(
    ("policy", "asked"),
    [("sequential", [6, 0, 0]), ("round_robin", [2, 2, 2])],
    ids=["sequential", "round_robin"],
)
def test_policies(policy: str, asked: list[int]) -> None:
    async def run() -> None:
        text = f"forward . {{0}} {{1}} {{2}} {{{{\npolicy {policy}\n}}}}"
        async with Forwarder(text, *[(FOUND, FOUND)] * 3) as found:
            for _ in range(6):
                await found.ask()
            assert found.asked() == asked

    asyncio.run(run())


def test_a_wrong_reply_over_tcp_is_formerr() -> None:
    async def run() -> None:
        def wrong(wire: bytes) -> list[bytes]:
            return [FOUND(wire)[0].replace(b"\3www", b"\3ftp", 1)]

        async with Forwarder("forward . {0} {1}", (wrong, wrong), (wrong, wrong)) as found:
            assert await found.ask("tcp") == Reply(rcode=Rcode.FORMERR)
            assert sum(found.asked("tcp")) == 1
            assert found.runtime.tasks == {}

    asyncio.run(run())


# --- upstreams that do not answer ---


def test_the_next_upstream_is_asked_after_an_error() -> None:
    async def run() -> None:
        text = "forward . {0} {1} {{\npolicy sequential\n}}"
        scripts: Sequence[tuple[Answer, Answer]] = (
            (silence, silence),
            (FOUND, FOUND),
        )
        async with Forwarder(text, *scripts, read_timeout=READ_TIMEOUT) as found:
            assert section((await found.ask()).answer) == [A]
            assert found.asked() == [1, 1]
            port = found.servers[0].port
            assert list(found.runtime.tasks) == [f"forward: probes of 127.0.0.1:{port}"]

    asyncio.run(run())


@pytest.mark.parametrize(
    ("upstreams", "options", "attempts", "probes"),
    [
        pytest.param(1, "", [2], 1, id="one"),
        pytest.param(2, "", [2, 2], 2, id="two"),
        pytest.param(1, "max_fails 0", [2], 0, id="no-probes"),
    ],
)
def test_nobody_answers(upstreams: int, options: str, attempts: list[int], probes: int) -> None:
    async def run() -> None:
        targets = " ".join(f"{{{k}}}" for k in range(upstreams))
        text = f"forward . {targets} {{{{\npolicy sequential\n{options}\n}}}}"
        async with Forwarder(
            text, *[(silence, silence)] * upstreams, read_timeout=READ_TIMEOUT
        ) as found:
            port = found.servers[-1].port
            sentence = (
                f"127.0.0.1:{port} did not reply over udp within 0.05s, 2 failures in a row, the first 0s ago: "
                "i/o timeout"
            )
            assert await found.ask() == unwritten(Rcode.SERVFAIL, sentence)
            assert found.asked() == attempts
            assert len(found.runtime.tasks) == probes

    asyncio.run(run())


def test_no_listener() -> None:
    async def run() -> None:
        async with Forwarder("forward . {0}", (FOUND, FOUND)) as gone:
            port = gone.servers[0].port
        async with Forwarder(f"forward . 127.0.0.1:{port}") as found:
            sentence = (
                f"127.0.0.1:{port} refuses connections; does a DNS server listen there? (tcp), 2 failures in a row, "
                "the first 0s ago: connection refused"
            )
            assert await found.ask("tcp") == unwritten(Rcode.SERVFAIL, sentence)

    asyncio.run(run())


@pytest.mark.parametrize(
    ("seconds", "asked", "last"), [(5.0, 1, 4.0), (4.5, 2, 0.5)], ids=["all", "most"]
)
def test_the_budget_ends_the_attempts(seconds: float, asked: int, last: float) -> None:
    """An attempt has what the one before it has left of the five seconds."""

    async def run() -> None:
        def slow(wire: bytes) -> list[bytes]:
            if b"\3www" in wire:
                for each in (4.0, last):
                    expire_timeouts(each)
                found.runtime.time += seconds
            return []

        async with Forwarder("forward . {0}", (slow, slow), read_timeout=4.0) as found:
            reply = await found.ask("tcp")
            assert (reply.rcode, found.asked("tcp")) == (Rcode.SERVFAIL, [asked])
            assert f"did not reply over tcp within {last:g}s" in str(reply.error)

    asyncio.run(run())


def test_what_is_down_is_passed_over() -> None:
    async def run() -> None:
        text = "forward . {0} {1} {{\npolicy sequential\n}}"
        async with Forwarder(text, (FOUND, FOUND), (FOUND, FOUND)) as found:
            first, second = found.forward.routes[0].upstreams
            first.health.failures = 3
            assert section((await found.ask()).answer) == [A]
            assert found.asked() == [0, 1]
            assert found.metric("coredns_forward_healthcheck_broken_total") == 0
            second.health.failures = 3
            assert section((await found.ask()).answer) == [A]
            assert sum(found.asked()) == 2
            assert found.metric("coredns_forward_healthcheck_broken_total") == 1

    asyncio.run(run())


def test_all_are_down_and_silent() -> None:
    async def run() -> None:
        async with Forwarder(
            "forward . {0}", (silence, silence), read_timeout=READ_TIMEOUT
        ) as found:
            (upstream,) = found.forward.routes[0].upstreams
            upstream.health.failures = 3
            assert (await found.ask()).rcode == Rcode.SERVFAIL
            assert found.asked() == [1]
            assert found.metric("coredns_forward_healthcheck_broken_total") == 1

    asyncio.run(run())


def test_probes_end_when_the_upstream_is_back() -> None:
    async def run() -> None:
        well = False

        def sometimes(wire: bytes) -> list[bytes]:
            return FOUND(wire) if well else silence(wire, PROBE_TIMEOUT)

        text = "forward . {0} {{\nhealth_check 1ms\n}}"
        async with Forwarder(text, (sometimes, silence), read_timeout=READ_TIMEOUT) as found:
            assert (await found.ask()).rcode == Rcode.SERVFAIL
            (upstream,) = found.forward.routes[0].upstreams
            (task,) = found.runtime.tasks.values()
            well = True
            await task
            assert (upstream.health.failures, upstream.health.is_probing) == (0, False)
            assert (await found.ask()).rcode == Rcode.NOERROR

    asyncio.run(run())


# --- how many at once ---


@pytest.mark.parametrize("most", [1, 2])
def test_max_concurrent(most: int) -> None:
    async def run() -> None:
        text = f"forward . {{0}} {{{{\nmax_concurrent {most}\n}}}}"
        async with Forwarder(text, (silence, silence), read_timeout=READ_TIMEOUT) as found:
            waiting = [asyncio.create_task(found.ask()) for _ in range(most)]
            await asyncio.sleep(0)
            refused = unwritten(Rcode.REFUSED, f"concurrent queries exceeded maximum {most}")
            assert await found.ask() == refused
            assert found.metric("coredns_forward_max_concurrent_rejects_total") == 1
            assert [(await task).rcode for task in waiting] == [Rcode.SERVFAIL] * most
            assert found.forward.routes[0].in_flight == 0
            assert (await found.ask()).rcode == Rcode.SERVFAIL

    asyncio.run(run())


def test_stop_closes_idle_connections() -> None:
    async def run() -> None:
        async with Forwarder("forward . {0}", (FOUND, FOUND)) as found:
            await found.ask("tcp")
            (upstream,) = found.forward.routes[0].upstreams
            assert len(upstream.pool) == 1
            await found.forward.stop()
            assert len(upstream.pool) == 0

    asyncio.run(run())


def test_over_tls(tmp_path: Path) -> None:
    certificate = make_certificate(tmp_path, "dns.example.net")

    async def run() -> None:
        async with serve(tcp=FOUND, tls=certificate.server_context()) as server:
            text = f"forward . tls://127.0.0.1:{server.port} {{\ntls {certificate.cert}\ntls_servername dns.example.net\n}}"
            async with Forwarder(text.replace("{", "{{").replace("}", "}}")) as found:
                assert section((await found.ask()).answer) == [A]

    asyncio.run(run())


def test_it_needs_no_task() -> None:
    assert not isinstance(Forward(()), WaitsInTask)
    assert Forward.cacheable


# --- options that choose who is asked ---

NXDOMAIN = answer(rcode=Rcode.NXDOMAIN)
SERVFAIL = answer(rcode=Rcode.SERVFAIL)
NODATA = answer()


def served(*scripts: Answer) -> list[tuple[Answer, Answer]]:
    return [(script, script) for script in scripts]


@pytest.mark.parametrize(
    ("line", "scripts", "rcode", "asked"),
    [
        pytest.param("", [SERVFAIL, FOUND], Rcode.SERVFAIL, [1, 0], id="off"),
        pytest.param("failover SERVFAIL", [SERVFAIL, FOUND], Rcode.NOERROR, [1, 1], id="second"),
        pytest.param("failover REFUSED", [SERVFAIL, FOUND], Rcode.SERVFAIL, [1, 0], id="other-rcode"),
        pytest.param("failover SERVFAIL REFUSED", [SERVFAIL, REFUSED, FOUND], Rcode.NOERROR, [1, 1, 1], id="third"),
        pytest.param("failover SERVFAIL REFUSED", [SERVFAIL, REFUSED], Rcode.REFUSED, [1, 1], id="last-reply"),
        pytest.param("failover SERVFAIL", [SERVFAIL], Rcode.SERVFAIL, [1], id="only-one"),
        pytest.param("failover SERVFAIL", [SERVFAIL, silence], Rcode.SERVFAIL, [2, 1], id="silence-counts-not"),
        pytest.param(
            "failover SERVFAIL\nmax_connect_attempts 1", [SERVFAIL, SERVFAIL, FOUND], Rcode.NOERROR, [1, 1, 1],
            id="no-attempt",
        ),
    ],
)  # fmt: skip
def test_failover(line: str, scripts: list[Answer], rcode: int, asked: list[int]) -> None:
    async def run() -> None:
        targets = " ".join(f"{{{k}}}" for k in range(len(scripts)))
        text = f"forward . {targets} {{{{\npolicy sequential\n{line}\n}}}}"
        async with Forwarder(text, *served(*scripts), read_timeout=READ_TIMEOUT) as found:
            assert (await found.ask()).rcode == rcode
            assert found.asked() == asked

    asyncio.run(run())


TWO = "forward . {{0}} {{{{\n{}\n}}}}\nforward {} {{1}} {{{{\n{}\n}}}}"


@pytest.mark.parametrize(
    ("first", "zone", "second", "scripts", "rcode", "asked"),
    [
        pytest.param("next NXDOMAIN", ".", "", [NXDOMAIN, FOUND], Rcode.NOERROR, [1, 1], id="next"),
        pytest.param("next NXDOMAIN", ".", "", [NXDOMAIN, SERVFAIL], Rcode.SERVFAIL, [1, 1], id="next-says"),
        pytest.param("next REFUSED", ".", "", [NXDOMAIN, FOUND], Rcode.NXDOMAIN, [1, 0], id="other-rcode"),
        pytest.param("next NOERROR", ".", "", [FOUND, REFUSED], Rcode.REFUSED, [1, 1], id="noerror"),
        pytest.param("next NXDOMAIN", ".", "next NXDOMAIN", [NXDOMAIN, NXDOMAIN], Rcode.NXDOMAIN, [1, 1], id="last"),
        pytest.param("next SERVFAIL", ".", "", [silence, FOUND], Rcode.SERVFAIL, [2, 0], id="silence-is-no-rcode"),
        pytest.param("next_on_nodata", ".", "", [NODATA, FOUND], Rcode.NOERROR, [1, 1], id="nodata"),
        pytest.param("next_on_nodata", ".", "", [FOUND, REFUSED], Rcode.NOERROR, [1, 0], id="data"),
        pytest.param("next_on_nodata", ".", "", [NXDOMAIN, FOUND], Rcode.NXDOMAIN, [1, 0], id="nxdomain-is-no-nodata"),
        pytest.param("next NXDOMAIN", "net", "", [NXDOMAIN, FOUND], Rcode.SERVFAIL, [1, 0], id="not-for-it-goes-below"),
    ],
)  # fmt: skip
def test_next(
    first: str, zone: str, second: str, scripts: list[Answer], rcode: int, asked: list[int]
) -> None:
    async def run() -> None:
        text = TWO.format(first, zone, second)
        async with Forwarder(text, *served(*scripts), read_timeout=READ_TIMEOUT) as found:
            assert (await found.ask()).rcode == rcode
            assert found.asked() == asked
            assert [route.in_flight for route in found.forward.routes] == [0, 0]

    asyncio.run(run())


def test_a_wrong_reply_is_not_handed_on() -> None:
    async def run() -> None:
        def wrong(wire: bytes) -> list[bytes]:
            return [FOUND(wire)[0].replace(b"\3www", b"\3ftp", 1)]

        text = TWO.format("next FORMERR", ".", "")
        async with Forwarder(text, *served(wrong, FOUND)) as found:
            assert await found.ask("tcp") == Reply(rcode=Rcode.FORMERR)
            assert found.asked("tcp") == [1, 0]

    asyncio.run(run())


@pytest.mark.parametrize(
    ("attempts", "asked"), [(1, [1, 0]), (3, [2, 1]), (4, [2, 2])], ids=["one", "three", "four"]
)
def test_max_connect_attempts(attempts: int, asked: list[int]) -> None:
    async def run() -> None:
        text = (
            f"forward . {{0}} {{1}} {{{{\npolicy sequential\nmax_connect_attempts {attempts}\n}}}}"
        )
        async with Forwarder(text, *served(silence, silence), read_timeout=READ_TIMEOUT) as found:
            assert (await found.ask()).rcode == Rcode.SERVFAIL
            assert found.asked() == asked

    asyncio.run(run())


def test_without_a_limit_only_the_budget_ends_the_attempts(monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> None:
        pauses: list[float] = []

        async def sleep(seconds: float) -> None:
            pauses.append(seconds)
            found.runtime.time += 1.0

        monkeypatch.setattr("hsdns.plugins.forward.sleep", sleep)
        async with Forwarder("forward . {0}", *served(FOUND)) as gone:
            port = gone.servers[0].port
        text = f"forward . 127.0.0.1:{port} {{{{\nmax_connect_attempts 0\nmax_fails 0\n}}}}"
        async with Forwarder(text) as found:
            reply = await found.ask("tcp")
            assert (reply.rcode, reply.written) == (Rcode.SERVFAIL, False)
            assert pauses == [0.05] * 5
            assert "7 failures in a row, the first 5s ago" in str(reply.error)

    asyncio.run(run())


def test_an_upstream_with_too_many_queries_is_asked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> None:
        async with Forwarder("forward . {0}", *served(FOUND)) as found:
            (upstream,) = found.forward.routes[0].upstreams
            monkeypatch.setattr(upstream._streams, "most", 0)
            sentence = f"{upstream} is not asked: 0 queries over streams wait"
            assert await found.ask("tcp") == unwritten(Rcode.SERVFAIL, sentence)
            assert found.runtime.tasks == {}

    asyncio.run(run())


def test_failfast() -> None:
    async def run() -> None:
        text = "forward . {0} {1} {{\nfailfast_all_unhealthy_upstreams\n}}"
        async with Forwarder(text, *served(FOUND, FOUND)) as found:
            first, second = found.forward.routes[0].upstreams
            first.health.failures = 3
            assert section((await found.ask()).answer) == [A]
            second.health.failures = 3
            sentence = f"no healthy upstream: none of {first}, {second} answers its probes"
            assert await found.ask() == unwritten(Rcode.SERVFAIL, sentence)
            assert found.asked() == [0, 1]
            assert found.metric("coredns_forward_healthcheck_broken_total") == 1

    asyncio.run(run())


def test_an_upstream_that_leads_back_is_not_asked() -> None:
    async def run() -> None:
        async with Forwarder("forward . {0} {1}", *served(FOUND, FOUND)) as found:
            first, second = found.forward.routes[0].upstreams
            first.loops = True
            for _ in range(4):
                assert section((await found.ask()).answer) == [A]
            assert found.asked() == [0, 4]
            second.loops = True
            sentence = f"every upstream of forward sends its queries back to this server: {first}, {second}"
            assert await found.ask() == unwritten(Rcode.REFUSED, sentence)
            assert found.asked() == [0, 4]

    asyncio.run(run())


def test_the_upstream_is_metadata() -> None:
    async def run() -> None:
        text = "forward . {0} {1} {{\npolicy sequential\n}}"
        async with Forwarder(text, *served(silence, FOUND), read_timeout=READ_TIMEOUT) as found:
            metadata: dict[str, Callable[[], str]] = {"a/b": str}
            request = make_request("www.example.org.").replace(metadata=metadata)
            await found.forward.handle(request, next_with(ELSEWHERE))
            assert list(metadata) == ["a/b", "forward/upstream"]
            assert metadata["forward/upstream"]() == f"127.0.0.1:{found.servers[1].port}"

    asyncio.run(run())


def test_the_source_address() -> None:
    async def run() -> None:
        text = f"forward . {{0}} {{{{\nsource_address {OTHER_LOOPBACK}\n}}}}"
        async with Forwarder(text, *served(FOUND)) as found:
            assert section((await found.ask("tcp")).answer) == [A]
            (made,) = found.servers[0].connections
            assert made.get_extra_info("peername")[0] == OTHER_LOOPBACK

    asyncio.run(run())


# --- host names and HTTPS ---


def test_host_names_are_looked_up_at_start() -> None:
    async def run() -> None:
        address = answer("dns.example.net. 5 IN A 127.0.0.1")
        async with serve(address) as resolver, serve(FOUND) as server:
            text = f"forward . dns.example.net:{server.port} {{{{\nresolver 127.0.0.1:{resolver.port}\n}}}}"
            async with Forwarder(text) as found:
                assert section((await found.ask()).answer) == [A]
                assert [str(each) for each in found.forward.routes[0].upstreams] == [
                    f"127.0.0.1:{server.port}"
                ]
                assert len(resolver.udp) == 2

    asyncio.run(run())


def test_an_unknown_host_ends_the_start() -> None:
    async def run() -> None:
        async with serve(NXDOMAIN) as resolver:
            text = (
                f"forward . 10.0.0.2 dns.example.net {{{{\nresolver 127.0.0.1:{resolver.port}\n}}}}"
            )
            with pytest.raises(CorefileError) as caught:
                async with Forwarder(text):
                    pass
            assert str(caught.value) == (
                'Corefile:2:20: cannot resolve "dns.example.net": '
                f"127.0.0.1:{resolver.port} has no address for it (NXDOMAIN); write an address, or use another resolver"
            )

    asyncio.run(run())


@pytest.mark.parametrize("method", ["POST", "GET"])
def test_over_https(method: str, tmp_path: Path) -> None:
    certificate = make_certificate(tmp_path, "dns.example.net")

    async def run() -> None:
        async with serve_doh(FOUND, certificate) as server:
            text = (
                f"forward . https://127.0.0.1:{server.port} {{\ntls {certificate.cert}\n"
                f"tls_servername dns.example.net\ndoh_method {method}\n}}"
            )
            async with Forwarder(text.replace("{", "{{").replace("}", "}}")) as found:
                for protocol in ("udp", "tcp"):
                    assert section((await found.ask(protocol)).answer) == [A]
                assert [asked.method for asked in server.asked] == [method] * 2
                assert len(server.connections) == 1

    asyncio.run(run())
