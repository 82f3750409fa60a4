"""The question of somebody who wants an explanation."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from hsdns.cluster.controllers.network_policy import Denial
from hsdns.cluster.objects import Object
from hsdns.explanation.client import Client, ClientPod
from hsdns.explanation.explain import Explainer
from hsdns.explanation.lookup import explain_for_client
from hsdns.explanation.observed import Edges
from hsdns.explanation.question import (
    TYPES,
    LookupQuestion,
    from_parameters,
    overridden,
    read_name,
    read_question,
)
from hsdns.explanation.report import Explanation
from hsdns.explanation.text import lines
from hsdns.resolver import USUAL
from hsdns.resolver.resolv_conf import PodDns, pod_resolv_conf
from hsdns.wire.iana import RRType
from tests.support.cluster.explained import KnownObjects
from tests.support.cluster.objects import endpoint_slice, namespace, service
from tests.support.coroutines.eager import turns
from tests.support.servers.memory_server import MemoryServer
from tests.support.tables import Row, rows


@pytest.mark.parametrize(
    ("name", "rrtype", "sentence"),
    [
        ("a..b", "", '"a..b" is not a domain name'),
        ("a", "qq", '"QQ" is not a record type; try A, AAAA, SRV, PTR or CNAME'),
    ],
)
def test_what_is_no_question(name: str, rrtype: str, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        read_question(name, rrtype)


# Who asks, from words and back.


WHOLE = LookupQuestion(
    "db", (RRType.AAAA,), ("musl",), "shop/web-0", "nameserver 10.0.0.1\n", "a,b", "2", "10.0.0.2"
)


@pytest.mark.parametrize("asking", [WHOLE, LookupQuestion("db.", TYPES, USUAL), LookupQuestion("db", TYPES, USUAL, ndots="0")])  # fmt: skip
def test_there_and_back(asking: LookupQuestion) -> None:
    assert from_parameters(asking.parameters()) == asking


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"name": "db", "ndots": "16"}, 'ndots is a number from 0 to 15, found "16"'),
        ({"name": "db", "ndots": "-1"}, 'ndots is a number from 0 to 15, found "-1"'),
        ({"name": "db", "ndots": "\u0661"}, 'ndots is a number from 0 to 15, found "\u0661"'),
        ({"name": "db", "program": "muls"}, 'there is no model of a program "muls"; did you mean "musl"?'),
        ({"name": "."}, '"." is not a name that can be looked up: it is the root'),
    ],
)  # fmt: skip
def test_what_is_no_lookup(given: dict[str, str], sentence: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(sentence)}$"):
        from_parameters(given)


def test_lines_that_stand_in_place_of_others() -> None:
    assert overridden("", "a,b", "2") == "search a b\noptions ndots:2\n"
    assert overridden("x", "", "") == "x\n"
    assert WHOLE.added == "search a b\noptions ndots:2\n"


# First lines where a program asks: the asker if it is the cause, else the Service.

DNS, DOMAIN = "10.96.0.10", "cluster.local"
OBJECTS: list[Object] = [
    namespace("shop"),
    namespace("front"),
    service("shop/web", "10.96.0.1"),
    endpoint_slice("shop/web-1", "web", "10.0.2.1"),
    service("shop/db"),
    endpoint_slice("shop/db-1", "db", "10.0.0.1 ready=false"),
    service("shop/big"),
    endpoint_slice("shop/big-1", "big", *(f"10.0.1.{number}" for number in range(60))),
    service("shop/outside", external="www.example.org"),
]
COREFILE = Path(__file__).with_name("lookup.corefile").read_text()
SHOP = PodDns("shop")


def explain(
    name: str, pod: PodDns | str, *resolvers: str, types: tuple[int, ...] = (RRType.A, RRType.AAAA), denied: tuple[tuple[str, Denial], ...] = ()
) -> Explanation:  # fmt: skip
    """Explain a lookup of a Pod NS/p, or with a resolv.conf."""
    server = MemoryServer(COREFILE, None, OBJECTS)
    seeing = {id(each): KnownObjects(OBJECTS) for each in server.plugins}
    explainer = Explainer(server.configuration, seeing, Edges(server.runtime.queries.spawn))
    node = "nameserver 192.0.2.1\n"
    asker = Client(resolvers, str(pod), DOMAIN, ("front", "shop"))
    if not isinstance(pod, str):
        text = pod_resolv_conf(pod, DNS, DOMAIN, node)
        of_pod = ClientPod(f"{pod.namespace}/p", pod, "", DOMAIN, DNS, denied)
        asker = asker._replace(text=text, pod=of_pod, node=node)
    found = explain_for_client(explainer, asker, LookupQuestion(name, types, resolvers), 0.0)
    return turns(found)[0]


@pytest.mark.parametrize("row", rows(Path(__file__).with_name("lookups.txt")))
def test_first_line(row: Row) -> None:
    head, *lines_ = row.given.splitlines()
    name, *resolvers = head.split()
    _, types = read_name(name, resolvers.pop(0) if resolvers[0].isupper() else "")
    pod: PodDns | str = "\n".join([*lines_, ""])
    word, *words = lines_[0].split()
    if word == "pod":
        given = {
            key: value.split(",")
            for key, mark, value in (each.partition("=") for each in words)
            if mark
        }
        pod = PodDns(words[0], words[1], "host" in words, given.get("nameservers", ()),
                     given.get("searches", ()), dict(each.split(":") for each in given.get("options", ())))  # fmt: skip
    found = explain(name, pod, *resolvers, types=types)
    assert row.expected in ([f"{found.outcome}: {found.cause}"], [f"{found.outcome}: ..."])
    assert found.asker is not None
    assert [each.resolver for each in found.asker.lookups] == resolvers
    text = list(lines(found))
    assert text[0].startswith(found.cause[:40])
    assert f"{found.asker.decisive} {found.type}" in "\n".join(text)


def test_an_old_musl_drops_a_truncated_answer() -> None:
    found = explain("big", SHOP, "musl-1.2.3", types=(RRType.A,))
    assert found.cause.startswith("Pod shop/p with musl-1.2.3 takes 29 of 60 addresses; NOERROR: ")


@pytest.mark.parametrize(
    ("blocked", "resolver", "first", "name"),
    [
        ({"tcp": "P allows UDP"}, "glibc", 'Pod shop/p with glibc still waits: P allows UDP, and the '
         "answer for big.shop.svc.cluster.local is too long for UDP", "big"),
        ({"udp": "P allows none", "tcp": "P allows none"}, "musl", 'Pod shop/p with musl gets "Try again": P allows none', "web"),
        ({"tcp": "P allows UDP"}, "musl", "NOERROR: ", "web"),
    ],
)  # fmt: skip
def test_network_policy(blocked: dict[str, str], resolver: str, first: str, name: str) -> None:
    denials = tuple((each, Denial(sentence, "")) for each, sentence in blocked.items())
    found = explain(name, SHOP, resolver, denied=denials)
    assert found.cause.startswith(first)


def test_what_a_result_rests_on() -> None:
    found = explain("web.shop", PodDns("shop", options={"ndots": "1"}), "glibc")
    assert (found.outcome, found.blind) == (
        "resolves",
        ["web.shop is assumed missing, because another server answers it"],
    )
    found = explain("web", PodDns("shop", nameservers=["192.0.2.8"]), "musl")
    assert (found.outcome, found.blind) == (
        "resolves",
        ["192.0.2.8 is queried too, and its answers are not seen"],
    )
