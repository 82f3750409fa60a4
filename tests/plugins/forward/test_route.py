from __future__ import annotations

import ssl
from pathlib import Path

import pytest

from hsdns.plugins.forward import Forward
from hsdns.upstream.exchange import HealthCheck, UpstreamSettings
from hsdns.upstream.target import HostTarget, Target
from hsdns.wire.name import Name
from tests.support.plugins.setup import set_up, setup_error


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


def test_a_source_of_another_family_is_warned_about() -> None:
    warnings: list[str] = []
    text = "forward . 10.0.0.2 2001:db8::2 {\nsource_address 10.0.0.9\n}"
    set_up(Forward, text, warnings=warnings)
    assert warnings == [
        "Corefile:2:1: [2001:db8::2]:53 cannot be reached from source_address 10.0.0.9, which is of another address "
        "family; remove one of them"
    ]


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
            "forward . 10.0.0.2 {\nfailover NXDOMIAN\n}",
            '3:10: "NXDOMIAN" is not a response code such as NXDOMAIN; did you mean "NXDOMAIN"?',
            id="failover",
        ),
        pytest.param(
            "forward . 10.0.0.2 {\nfailover SERVFAIL noerror\n}",
            "3:19: NOERROR is a success and cannot be failed over; use next_on_nodata for empty replies",
            id="failover-noerror",
        ),
        pytest.param(
            "forward . 10.0.0.2 {\nnext\n}",
            '3:1: property "next" takes at least 1 argument, found 0',
            id="next",
        ),
        pytest.param(
            "forward . 10.0.0.2 {\nmax_age 5s\n}",
            "2:1: max_age 5s is less than expire 10s; increase max_age or reduce expire",
            id="max_age",
        ),
        pytest.param(
            "forward . 10.0.0.2 {\nread_timeout 0s\n}",
            "3:14: 0s is out of range, allowed is 0.001s or more",
            id="read_timeout",
        ),
        pytest.param(
            "forward . 10.0.0.2 {\ndoh_method post\n}",
            '3:12: "post" is not one of: POST, GET',
            id="doh_method",
        ),
        pytest.param(
            "forward . 10.0.0.2 {\nsource_address 10.0.0.9:53\n}",
            '3:16: "10.0.0.9:53" is not an IP address; write one without a port',
            id="source_address",
        ),
        pytest.param(
            "forward . 10.0.0.2 {\nresolver dns.example.net\n}",
            '3:10: "dns.example.net" is not an IP address; write one such as "10.0.0.2" or "10.0.0.2:53"',
            id="resolver",
        ),
        pytest.param(
            "forward . 10.0.0.2 {\nforce_tpc\n}",
            '3:1: unknown property "force_tpc" of forward; did you mean "force_tcp"?',
            id="unknown",
        ),
        pytest.param(
            "forward . " + " ".join(f"10.0.0.{k}" for k in range(1, 17)),
            "2:152: forward takes at most 15 upstreams, found 16; remove some",
            id="16-upstreams",
        ),
        pytest.param(
            "forward . /dev/null",
            '2:11: "/dev/null" contains no upstream; add a nameserver to the file, or write an address',
            id="empty-file",
        ),
        pytest.param(
            "forward . tls://10.0.0.2%a.example.net {\ntls_servername b.example.net\n}",
            '2:1: "tls_servername b.example.net" and "%a.example.net" both name the server of 10.0.0.2:853; remove one '
            "of them",
            id="two-server-names",
        ),
        pytest.param(
            "forward . 10.0.0.2 {\ntls /none/ca.pem\n}",
            '3:5: cannot use "/none/ca.pem" for TLS: No such file or directory',
            id="files-nobody-needs",
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
