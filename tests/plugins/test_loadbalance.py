from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from hsdns.plugins.loadbalance import Loadbalance, shuffle
from hsdns.wire.iana import Rcode
from hsdns.wire.message import Reply, unwritten
from tests.support.drive import finish
from tests.support.requests import FakeRuntime, make_request, next_with, reply, rr, section
from tests.support.setup import set_up, setup_error

CNAME = "www.example.org. 5 IN CNAME a.example.org."
A = [f"a.example.org. 5 IN A 192.0.2.{k}" for k in (1, 2, 3)]
AAAA = [f"a.example.org. 5 IN AAAA 2001:db8::{k}" for k in (1, 2)]
MX = [f"a.example.org. 5 IN MX {k} m{k}.example.org." for k in (10, 20)]
TXT = ['a.example.org. 5 IN TXT "b"', 'a.example.org. 5 IN TXT "a"']


@pytest.mark.parametrize(
    "text", ["loadbalance", "loadbalance round_robin", "loadbalance {\n}"], ids=repr
)
def test_setup(text: str) -> None:
    assert set_up(Loadbalance, text).name == "loadbalance"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        pytest.param(
            "loadbalance weighted w",
            'Corefile:2:13: policy "weighted" of loadbalance exists in CoreDNS but not in hsdns yet; remove the word '
            'or write "round_robin"',
            id="weighted",
        ),
        pytest.param(
            "loadbalance round_robbin",
            'Corefile:2:13: unknown policy "round_robbin" of loadbalance; did you mean "round_robin"?',
            id="near",
        ),
        pytest.param(
            "loadbalance sticky",
            'Corefile:2:13: unknown policy "sticky" of loadbalance; the only one is "round_robin"',
            id="far",
        ),
        pytest.param(
            "loadbalance round_robin w",
            'Corefile:2:25: policy "round_robin" takes no argument, found "w"',
            id="argument",
        ),
        pytest.param(
            "loadbalance {\nprefer 10.0.0.0/8\n}",
            'Corefile:3:1: property "prefer" of loadbalance exists in CoreDNS but not in hsdns yet; remove the line',
            id="prefer",
        ),
        pytest.param(
            "loadbalance\nloadbalance",
            'Corefile:3:1: "loadbalance" may stand only once in a server block; merge it with the first',
            id="twice",
        ),
    ],
)
def test_setup_errors(text: str, sentence: str) -> None:
    assert setup_error(Loadbalance, text) == sentence


def balanced(found: Reply, qtype: str = "A", seed: int = 1) -> Reply:
    plugin = set_up(Loadbalance, "loadbalance")
    finish(plugin.start(FakeRuntime(seed)))
    return finish(plugin.handle(make_request("www.example.org.", qtype), next_with(found)))


@pytest.mark.parametrize(
    ("qtype", "found"),
    [
        pytest.param("A", reply(A, rcode=Rcode.NXDOMAIN), id="not-noerror"),
        pytest.param("AXFR", reply(A), id="axfr"),
        pytest.param("IXFR", reply(A), id="ixfr"),
        pytest.param("A", reply(A[:1], [TXT[0]], MX[:1]), id="one-record-each"),
        pytest.param("A", unwritten(Rcode.NOERROR), id="unwritten"),
    ],
)
def test_untouched(qtype: str, found: Reply) -> None:
    assert balanced(found, qtype) is found


def test_groups_in_every_section() -> None:
    mixed = [MX[0], A[0], TXT[0], AAAA[0], CNAME, MX[1], TXT[1], A[1]]
    found = balanced(reply(mixed, mixed, mixed, aa=True, fresh=True))
    for part in (found.answer, found.authority, found.additional):
        texts = section(part)
        assert texts[:3] == [CNAME, *TXT]
        assert sorted(texts[3:6]) == sorted([A[0], A[1], AAAA[0]])
        assert sorted(texts[6:]) == sorted(MX)
    assert (found.rcode, found.aa, found.fresh) == (Rcode.NOERROR, True, True)


@pytest.mark.parametrize("records", [A, A + AAAA, MX], ids=["a", "a-and-aaaa", "mx"])
def test_each_comes_first_about_as_often(records: list[str]) -> None:
    random, found = Random(7), tuple(map(rr, records))
    first = Counter(shuffle(found, random)[0] for _ in range(1200))
    assert set(first) == set(found)
    assert min(first.values()) > 0.75 * 1200 / len(records)


def test_a_seed_replays_a_run() -> None:
    assert balanced(reply(A), seed=3) == balanced(reply(A), seed=3)
