"""First lines where a program asks: the asker if it is the cause, else the Service."""

from __future__ import annotations

import pytest

from hsdns.cluster.objects import Object
from hsdns.explanation.client import Client
from hsdns.explanation.explain import Explainer
from hsdns.explanation.lookup import Question, explain_for_client
from hsdns.explanation.observed import Edges
from hsdns.explanation.report import Explanation
from hsdns.explanation.text import lines
from hsdns.resolver.resolv_conf import PodDns, pod_resolv_conf
from hsdns.wire.iana import RRType
from tests.support.cluster.explained import KnownObjects
from tests.support.cluster.objects import endpoint_slice, namespace, service
from tests.support.coroutines.eager import turns
from tests.support.servers.memory_server import MemoryServer

DNS, DOMAIN = "10.96.0.10", "cluster.local"
OBJECTS: list[Object] = [
    namespace("shop"),
    namespace("front"),
    service("shop/web", "10.96.0.1"),
    service("shop/db"),
    endpoint_slice("shop/db-1", "db", "10.0.0.1 ready=false"),
    service("shop/big"),
    endpoint_slice("shop/big-1", "big", *(f"10.0.1.{number}" for number in range(60))),
]
COREFILE = """. {
cache 30
kubernetes cluster.local
template ANY ANY nodata.test {
rcode NOERROR
}
template IN AAAA v4.test {
rcode NXDOMAIN
}
template IN A v4.test {
answer "{{ .Name }} 60 IN A 192.0.2.4"
}
forward . 192.0.2.53
}
"""
FRONT = PodDns("front")
SHOP = PodDns("shop")


def explain(
    name: str, pod: PodDns | str, *resolvers: str, types: tuple[int, ...] = (RRType.A, RRType.AAAA), **fields: object
) -> Explanation:  # fmt: skip
    """Explain a lookup of a Pod NS/p, or with a resolv.conf."""
    server = MemoryServer(COREFILE, None, OBJECTS)
    seeing = {id(each): KnownObjects(OBJECTS) for each in server.plugins}
    explainer = Explainer(server.configuration, seeing, Edges(server.runtime.queries.spawn))
    if isinstance(pod, str):
        asker = Client(resolvers, pod, DOMAIN, ("front", "shop"))
    else:
        text = pod_resolv_conf(pod, DNS, DOMAIN, "nameserver 192.0.2.1\n")
        path = f"{pod.namespace}/p"
        asker = Client(
            resolvers,
            text,
            DOMAIN,
            ("front", "shop"),
            path,
            pod,
            server=DNS,
            node="nameserver 192.0.2.1\n",
        )
    found = explain_for_client(explainer, asker._replace(**fields), Question(name, types), 0.0)  # type: ignore[arg-type]
    return turns(found)[0]


SEARCH = "search shop.svc.cluster.local svc.cluster.local cluster.local"
LONG = " ".join(f"{letter * 60}.test" for letter in "abc")
WEB = "the cluster IP of Service shop/web, which is not headless: its pods are not in the answer"


@pytest.mark.parametrize(
    ("name", "pod", "resolvers", "outcome", "cause"),
    [
        ("web", SHOP, ("glibc", "musl", "go", "c-ares"), "resolves",
         f"NOERROR: {WEB}; asked as web.shop.svc.cluster.local, which the search list makes of web"),
        ("web.shop.svc.cluster.local.", SHOP, ("go",), "resolves", f"NOERROR: {WEB}"),
        ("db", SHOP, ("glibc", "musl"), "does not resolve",
         "NXDOMAIN: 0 of 1 endpoints of Service shop/db are ready; publishNotReadyAddresses is false; "
         "asked as db.shop.svc.cluster.local, which the search list makes of db"),
        ("db.shop", FRONT, ("go",), "does not resolve",
         "NXDOMAIN: 0 of 1 endpoints of Service shop/db are ready; publishNotReadyAddresses is false; "
         "asked as db.shop.svc.cluster.local, which the search list makes of db.shop"),
        # The search list.
        ("web", FRONT, ("musl",), "does not resolve",
         'Pod front/p with musl gets "Name does not resolve": the search list has no shop.svc.cluster.local, where web '
         "exists; it has front.svc.cluster.local svc.cluster.local cluster.local"),
        ("web", "nameserver 10.0.0.1\n", ("go",), "does not resolve",
         'go gets "no such host": there is no search list, and web exists in shop.svc.cluster.local'),
        ("web", PodDns("front", searches=[*(f"s{n}.test" for n in range(29)), "shop.svc.cluster.local"]), ("c-ares",), "does not resolve",
         "Pod front/p with c-ares: the kubelet writes 32 of 33 search domains into the resolv.conf, and leaves out "
         "shop.svc.cluster.local"),
        # ndots.
        ("web.shop", PodDns("shop", options={"ndots": "1"}), ("glibc", "musl"), "does not resolve",
         "Pod shop/p with musl: web.shop has 1 dot and ndots is 1, so musl tries no search domain"),
        # musl and a long line.
        ("web", PodDns("shop", searches=LONG.split()), ("glibc", "musl"), "does not resolve",
         'Pod shop/p with musl gets "Name does not resolve": musl ignores the line search: it has 259 octets, more than '
         "254, so it tries no search domain"),
        # musl gives up where others go on.
        ("web", f"{SEARCH.replace('search', 'search nodata.test')}\n", ("glibc", "musl"), "does not resolve",
         'musl gets "Name has no usable address": web.nodata.test exists, but has no address; musl tries no other suffix then'),
        ("v4.test", "nameserver 10.0.0.1\n", ("musl",), "does not resolve",
         'musl gets "Name does not resolve": v4.test AAAA is NXDOMAIN, which counts for musl although there are addresses'),
        # An external name that the search list catches.
        ("example.org", "search nodata.test\noptions ndots:5\n", ("musl",), "does not resolve",
         'musl gets "Name has no usable address": the search list catches example.org: example.org.nodata.test exists, but '
         "has no address; musl tries no other suffix then"),
        ("web.shop.svc.cluster.local", "search nodata.test\noptions ndots:5\n", ("musl",), "does not resolve",
         'musl gets "Name has no usable address": the search list catches web.shop.svc.cluster.local: '
         "web.shop.svc.cluster.local.nodata.test exists, but has no address; musl tries no other suffix then"),
        ("example.org", SHOP, ("glibc",), "could not tell",
         "forward would ask 192.0.2.53:53, but an explanation asks no server; before it the search list has 3 other names "
         "asked, as ndots is 5"),
        # dnsPolicy.
        ("web.shop", PodDns("shop", "Default"), ("glibc",), "could not tell",
         "Pod shop/p with glibc: its dnsPolicy is Default, so it asks 192.0.2.1, not the cluster's DNS 10.96.0.10"),
        ("x.test", PodDns("shop", "Default"), ("glibc",), "could not tell",
         "Pod shop/p with glibc: its dnsPolicy is Default, so it asks 192.0.2.1, not the cluster's DNS 10.96.0.10"),
        ("web", PodDns("shop", on_host_network=True), ("go",), "could not tell",
         "Pod shop/p with go: its dnsPolicy is ClusterFirst, which on the host network means Default: it asks 192.0.2.1, "
         "not the cluster's DNS 10.96.0.10"),
        ("web", PodDns("shop", "None", nameservers=[DNS]), ("musl",), "does not resolve",
         'Pod shop/p with musl gets "Name does not resolve": its dnsPolicy is None and its dnsConfig has no searches, so it '
         "has no search list"),
        ("web", PodDns("shop", "None", nameservers=[DNS], searches=["svc.cluster.local"]), ("musl",), "does not resolve",
         'Pod shop/p with musl gets "Name does not resolve": its dnsPolicy is None, so its search list is svc.cluster.local'),
        ("nope.shop", FRONT, ("go",), "could not tell", None),
        # Answers that are cut.
        ("big", SHOP, ("glibc", "musl"), "resolves",
         "Pod shop/p with musl takes 48 of 60 addresses; NOERROR: 60 of 60 endpoints of headless Service shop/big; asked as "
         "big.shop.svc.cluster.local, which the search list makes of big"),
    ],
)  # fmt: skip
def test_first_line(
    name: str, pod: PodDns | str, resolvers: tuple[str, ...], outcome: str, cause: str | None
) -> None:
    found = explain(name, pod, *resolvers)
    assert (found.outcome, found.cause) == (outcome, found.cause if cause is None else cause)
    assert found.asker is not None
    assert [each.resolver for each in found.asker.lookups] == list(resolvers)
    text = list(lines(found))
    assert text[0].startswith(found.cause[:40])
    assert f"{found.asker.decisive} {found.type}" in "\n".join(text)


def test_an_old_musl_drops_a_truncated_answer() -> None:
    found = explain("big", SHOP, "musl-1.2.3", types=(RRType.A,))
    assert found.cause.startswith("Pod shop/p with musl-1.2.3 takes 29 of 60 addresses; NOERROR: ")


@pytest.mark.parametrize(
    ("blocked", "resolver", "first", "name"),
    [
        ({"tcp": "P allows UDP"}, "glibc", 'Pod shop/p with glibc gets "no result: still waiting": P allows UDP, and the '
         "answer for big.shop.svc.cluster.local is too long for UDP", "big"),
        ({"udp": "P allows none", "tcp": "P allows none"}, "musl", 'Pod shop/p with musl gets "Try again": P allows none', "web"),
        ({"tcp": "P allows UDP"}, "musl", "NOERROR: ", "web"),
    ],
)  # fmt: skip
def test_network_policy(blocked: dict[str, str], resolver: str, first: str, name: str) -> None:
    found = explain(name, SHOP, resolver, blocked=tuple(blocked.items()))
    assert found.cause.startswith(first)


def test_what_a_result_rests_on() -> None:
    found = explain("web.shop", PodDns("shop", options={"ndots": "1"}), "glibc")
    assert (found.outcome, found.blind) == (
        "resolves",
        ["web.shop is taken as missing, as another server would answer"],
    )
    found = explain("web", PodDns("shop", nameservers=["192.0.2.8"]), "musl")
    assert (found.outcome, found.blind) == (
        "resolves",
        ["192.0.2.8 is asked too, and its answers are not seen"],
    )
