from __future__ import annotations

import pytest

from hsdns.plugins.local import Local
from hsdns.wire.iana import Rcode
from hsdns.wire.message import Reply
from hsdns.wire.name import Name
from tests.support.coroutines.eager import finish
from tests.support.plugins.requests import make_request, next_with, section
from tests.support.plugins.runtime import FakeRuntime
from tests.support.plugins.setup import set_up

PASSED = Reply(rcode=Rcode.REFUSED)


def answer(text: str, qname: str, qtype: str) -> tuple[Reply, float]:
    """Return the reply, PASSED if it is the next plugin's, and the number of counted localhost names."""
    plugin = set_up(Local, text)
    runtime = FakeRuntime()
    finish(plugin.start(runtime))
    found = finish(plugin.handle(make_request(qname, qtype), next_with(PASSED)))
    return found, runtime.metrics.counter("coredns_local_localhost_requests_total", "").values[()]


def soa(owner: str) -> str:
    return f"{owner} 604800 IN SOA localhost. root.localhost. 1 0 0 0 604800"


@pytest.mark.parametrize(
    ("qname", "qtype", "rcode", "answers", "authority", "counted"),
    [
        ("localhost.", "A", 0, ["localhost. 604800 IN A 127.0.0.1"], [], 0),
        ("LocalHost.", "AAAA", 0, ["LocalHost. 604800 IN AAAA ::1"], [], 0),
        ("localhost.", "SOA", 0, [soa("localhost.")], [], 0),
        ("localhost.", "NS", 0, ["localhost. 604800 IN NS localhost."], [], 0),
        ("localhost.", "MX", 0, [], [soa("localhost.")], 0),
        ("a.b.localhost.", "A", 0, ["a.b.localhost. 604800 IN A 127.0.0.1"], [], 1),
        ("a.localhost.", "AAAA", 0, ["a.localhost. 604800 IN AAAA ::1"], [], 1),
        ("a.localhost.", "TXT", 0, [], [soa("a.localhost.")], 1),
        ("localhost.example.org.", "A", 0, ["localhost.example.org. 604800 IN A 127.0.0.1"], [], 1),
        ("localhost.example.org.", "SOA", 0, [], [soa("localhost.example.org.")], 1),
        ("127.in-addr.arpa.", "A", 0, [], [soa("127.in-addr.arpa.")], 0),
        ("127.in-addr.arpa.", "SOA", 0, [soa("127.in-addr.arpa.")], [], 0),
        ("0.in-addr.arpa.", "NS", 0, ["0.in-addr.arpa. 604800 IN NS localhost."], [], 0),
        (
            "1.0.0.127.in-addr.arpa.",
            "PTR",
            0,
            ["1.0.0.127.in-addr.arpa. 604800 IN PTR localhost."],
            [],
            0,
        ),
        ("1.0.0.127.IN-addr.arpa.", "A", 0, [], [soa("127.IN-addr.arpa.")], 0),
        ("2.0.0.127.in-addr.arpa.", "PTR", 3, [], [soa("127.in-addr.arpa.")], 0),
        ("1.255.in-addr.arpa.", "PTR", 3, [], [soa("255.in-addr.arpa.")], 0),
    ],
)
def test_answers(
    qname: str, qtype: str, rcode: int, answers: list[str], authority: list[str], counted: int
) -> None:
    found, requests = answer("local", qname, qtype)
    assert found == Reply(rcode=rcode, answer=found.answer, authority=found.authority)
    assert (section(found.answer), section(found.authority)) == (answers, authority)
    assert requests == counted


@pytest.mark.parametrize(
    ("text", "qname"),
    [
        ("local", "example.org."),
        ("local", "128.in-addr.arpa."),
        ("local", "notlocalhost."),
        ("local", "."),
        ("local {\n localhost_prefix off\n}", "localhost.example.org."),
    ],
)
def test_passes_on(text: str, qname: str) -> None:
    assert answer(text, qname, "A") == (PASSED, 0)


@pytest.mark.parametrize(
    ("text", "zone", "names"),
    [
        ("local", "cluster.local.", None),
        ("local {\n localhost_prefix off\n}", "cluster.local.", ()),
        ("local {\n localhost_prefix off\n}", "a.localhost.", None),
        (
            "local {\n localhost_prefix off\n}",
            "in-addr.arpa.",
            ("0.in-addr.arpa.", "127.in-addr.arpa.", "255.in-addr.arpa."),
        ),
        ("local {\n localhost_prefix on\n localhost_prefix off\n}", "localhost.", None),
    ],
)
def test_names_answered_first(text: str, zone: str, names: tuple[str, ...] | None) -> None:
    found = set_up(Local, text).names_answered_first(Name.from_text(zone))
    assert (None if found is None else tuple(name.to_text() for name in found)) == names
