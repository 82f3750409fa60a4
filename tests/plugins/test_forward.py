from __future__ import annotations

import asyncio
import ssl
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path

import dns.flags
import pytest

from hsdns.plugins.forward import Forward
from hsdns.upstream.health import HealthCheck
from hsdns.wire.iana import Rcode
from hsdns.wire.message import Reply, unwritten
from hsdns.wire.name import Name
from tests.support.requests import FakeRuntime, make_request, next_with, reply, section
from tests.support.setup import set_up, setup_error
from tests.support.upstreams import Answer, Upstream, answer, make_certificate, serve, silence

A = "www.example.org. 5 IN A 192.0.2.1"
FOUND = answer(A)
REFUSED = answer(rcode=Rcode.REFUSED)
ELSEWHERE = unwritten(Rcode.SERVFAIL, "asked below")

# --- setup ---


def test_defaults() -> None:
    (route,) = set_up(Forward, "forward . 10.0.0.2").routes
    assert [str(target) for target in route.targets] == ["10.0.0.2:53"]
    assert route.zone == Name.from_text(".")
    assert (route.excepted, route.force_tcp, route.prefer_udp) == ((), False, False)
    assert (route.expire, route.max_fails, route.max_concurrent) == (10.0, 2, 0)
    assert (route.policy_name, route.check, route.tls) == ("random", HealthCheck(), None)
    assert route.read_timeout == 2.0


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
    assert (route.force_tcp, route.prefer_udp, route.expire) == (True, True, 60.0)
    assert (route.max_fails, route.max_concurrent) == (0, 1000)
    assert route.policy_name == "sequential"
    assert route.check == HealthCheck(1.5, False, Name.from_text("example.net."))
    assert isinstance(route.tls, ssl.SSLContext)


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
        'Corefile:2:9: "10.0.0.0/15" stands for 2 zones, of which forward takes only 0.10.in-addr.arpa.; write one '
        "forward for each"
    ]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        pytest.param(
            "forward .",
            '2:1: "forward" takes a zone and at least one upstream, such as "forward . 10.0.0.2"',
            id="no-upstream",
        ),
        pytest.param(
            "forward . 10.0.0.2 {\nexcept\n}",
            '3:1: property "except" takes at least 1 zone, found nothing',
            id="except",
        ),
        pytest.param(
            "forward . 10.0.0.2 {\nhealth_check\n}",
            '3:1: property "health_check" takes a duration such as "0.5s", found nothing',
            id="health_check",
        ),
        pytest.param(
            "forward . 10.0.0.2 {\nhealth_check 1s no_recursion\n}",
            '3:17: "no_recursion" is not one of: no_rec, domain; did you mean "no_rec"?',
            id="health_check-word",
        ),
        pytest.param(
            "forward . 10.0.0.2 {\nhealth_check 1s domain\n}",
            '3:17: word "domain" of health_check takes a name, found nothing',
            id="health_check-domain",
        ),
        pytest.param(
            "forward . 10.0.0.2 {\npolicy sequental\n}",
            '3:8: "sequental" is not one of: random, round_robin, sequential; did you mean "sequential"?',
            id="policy",
        ),
        pytest.param(
            "forward . 10.0.0.2 {\nmax_concurrent -1\n}",
            "3:16: -1 is out of range, allowed is 0 or more",
            id="max_concurrent",
        ),
        pytest.param(
            "forward . 10.0.0.2 {\nforce_tcp yes\n}",
            '3:11: property "force_tcp" takes no argument, found 1',
            id="force_tcp",
        ),
        pytest.param(
            "forward . 10.0.0.2 {\nfailover SERVFAIL\n}",
            '3:1: property "failover" of forward exists in CoreDNS but not in hsdns yet; remove the line',
            id="not-yet",
        ),
        pytest.param(
            "forward . 10.0.0.2 {\nforce_tpc\n}",
            '3:1: unknown property "force_tpc" of forward; did you mean "force_tcp"?',
            id="unknown",
        ),
        pytest.param(
            "forward . " + " ".join(f"10.0.0.{k}" for k in range(1, 17)),
            "2:11: forward takes at most 15 upstreams, found 16; leave some out",
            id="16-upstreams",
        ),
        pytest.param(
            "forward . /dev/null",
            '2:11: "/dev/null" names no upstream; add a nameserver to the file, or name an address',
            id="empty-file",
        ),
        pytest.param(
            "forward . tls://10.0.0.2%a.example.net {\ntls_servername b.example.net\n}",
            '2:1: "tls_servername b.example.net" and "%a.example.net" both name the server of 10.0.0.2:853; remove one '
            "of them",
            id="two-server-names",
        ),
    ],
)
def test_setup_errors(text: str, sentence: str) -> None:
    assert setup_error(Forward, text) == f"Corefile:{sentence}"


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
def test_takes(text: str, qname: str, taken: bool) -> None:
    (route,) = set_up(Forward, text).routes
    assert route.takes(Name.from_text(qname)) == taken


# --- asking ---


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
        await stack.enter_async_context(asyncio.timeout(10))
        servers = [await stack.enter_async_context(serve(udp, tcp)) for udp, tcp in self._scripts]
        forward = set_up(
            Forward, self._text.format(*(f"127.0.0.1:{server.port}" for server in servers))
        )
        for route in forward.routes:
            route.read_timeout = self._read_timeout
        runtime = FakeRuntime()
        await forward.start(runtime)
        stack.push_async_callback(runtime.stop_tasks)
        stack.push_async_callback(forward.stop)
        return Forwarding(runtime, forward, servers)

    async def __aexit__(self, *details: object) -> None:
        await self._stack.aclose()


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


def test_a_wrong_reply_is_formerr() -> None:
    async def run() -> None:
        def wrong(wire: bytes) -> list[bytes]:
            return [FOUND(wire)[0].replace(b"\3www", b"\3ftp", 1)]

        async with Forwarder("forward . {0} {1}", (wrong, wrong), (wrong, wrong)) as found:
            assert await found.ask() == Reply(rcode=Rcode.FORMERR)
            assert sum(found.asked()) == 1
            assert found.runtime.tasks == {}

    asyncio.run(run())


# --- upstreams that do not answer ---


def test_the_next_upstream_is_asked_after_an_error() -> None:
    async def run() -> None:
        text = "forward . {0} {1} {{\npolicy sequential\n}}"
        scripts: Sequence[tuple[Answer, Answer]] = ((silence, silence), (FOUND, FOUND))
        async with Forwarder(text, *scripts, read_timeout=0.05) as found:
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
        async with Forwarder(text, *[(silence, silence)] * upstreams, read_timeout=0.05) as found:
            port = found.servers[-1].port
            sentence = f"127.0.0.1:{port} did not reply over udp within 0.05s"
            assert await found.ask() == unwritten(Rcode.SERVFAIL, sentence)
            assert found.asked() == attempts
            assert len(found.runtime.tasks) == probes

    asyncio.run(run())


def test_nobody_listens() -> None:
    async def run() -> None:
        async with Forwarder("forward . {0}", (FOUND, FOUND)) as gone:
            port = gone.servers[0].port
        async with Forwarder(f"forward . 127.0.0.1:{port}") as found:
            sentence = (
                f"127.0.0.1:{port} refuses connections; does a DNS server listen there? (tcp)"
            )
            assert await found.ask("tcp") == unwritten(Rcode.SERVFAIL, sentence)

    asyncio.run(run())


def test_the_budget_ends_the_attempts() -> None:
    async def run() -> None:
        def slow(wire: bytes) -> list[bytes]:
            found.runtime.time += 5.0
            return []

        async with Forwarder("forward . {0}", (slow, slow), read_timeout=0.05) as found:
            assert (await found.ask()).rcode == Rcode.SERVFAIL
            assert found.asked() == [1]

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
        async with Forwarder("forward . {0}", (silence, silence), read_timeout=0.05) as found:
            (upstream,) = found.forward.routes[0].upstreams
            upstream.health.failures = 3
            assert (await found.ask()).rcode == Rcode.SERVFAIL
            assert found.asked() == [1]
            assert found.metric("coredns_forward_healthcheck_broken_total") == 1

    asyncio.run(run())


def test_probes_end_when_the_upstream_is_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hsdns.upstream.exchange.PROBE_TIMEOUT", 0.05)

    async def run() -> None:
        well = False

        def sometimes(wire: bytes) -> list[bytes]:
            return FOUND(wire) if well else []

        text = "forward . {0} {{\nhealth_check 1ms\n}}"
        async with Forwarder(text, (sometimes, silence), read_timeout=0.05) as found:
            assert (await found.ask()).rcode == Rcode.SERVFAIL
            (upstream,) = found.forward.routes[0].upstreams
            (task,) = found.runtime.tasks.values()
            well = True
            await task
            assert (upstream.health.failures, upstream.health.is_probing) == (0, False)
            assert (await found.ask()).rcode == Rcode.NOERROR

    asyncio.run(run())


# --- how many at once ---


def test_max_concurrent() -> None:
    async def run() -> None:
        text = "forward . {0} {{\nmax_concurrent 2\n}}"
        async with Forwarder(text, (silence, silence), read_timeout=0.05) as found:
            waiting = [asyncio.create_task(found.ask()) for _ in range(2)]
            await asyncio.sleep(0)
            refused = unwritten(Rcode.REFUSED, "concurrent queries exceeded maximum 2")
            assert await found.ask() == refused
            assert found.metric("coredns_forward_max_concurrent_rejects_total") == 1
            assert [(await task).rcode for task in waiting] == [Rcode.SERVFAIL] * 2
            assert found.forward.routes[0].asked_now == 0
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


def test_it_waits_in_a_task_of_its_own() -> None:
    assert Forward.waits
    assert Forward.cacheable
