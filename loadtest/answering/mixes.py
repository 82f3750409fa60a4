"""Mixes: lists of questions, how they are sent, and the few fields that are read from a reply.

Path: run.py -> here -> drain.py, generators.py.
Rule 1: a mix is generated from a seed and is the same in every run.  Only `fresh` names and varied octets differ from
        round to round.
Rule 2: no EDNS, as with the resolvers of glibc and musl, unless replies are longer than 512 octets.
Source: RFC 7873 section 4 (a client cookie has 8 octets).
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from random import Random
from typing import Final, NamedTuple

from loadtest.answering.cluster import CACHED_ZONE, SERVICES_ZONE, ZONE, Cluster, Question
from loadtest.dns import query_of

HOT = 1_000  # names
FEW_PORTS: Final = 20
MANY_PORTS: Final = (
    900  # more than any server reads at once; fewer than the open files that a process may have
)
CLUSTER_QUESTIONS = 50_000
FRESH_FIRST: Final = 2_000  # questions of a fresh mix for the warm-up of a server
EXTERNAL = 100  # names outside the cluster that are looked up with the search path
MOST_PODS = 100_000
POD_NAMESPACE = "ns-0"  # the Namespace of the Pod whose search path is used
DRAIN: Final = "drain"
DNSPERF: Final = "dnsperf"
BUSIEST: Final = "busiest thread"  # of drain
UDP: Final = "udp"
TCP: Final = "tcp"
DOT: Final = "dot"
DOH: Final = "doh"
_LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789"

# Shares of the whole-cluster mix; the rest are names that do not exist.
_SHARES = (("service", 0.30), ("pod", 0.20), ("port", 0.10), ("none6", 0.25))


class Mix(NamedTuple):
    """A kind of traffic.

    `fresh`: each round has different names.  `randomized`: each query has its own cookie and case.  `changes`: cluster
    events per second during the run.  `ports`: the number of ports from which drain sends, in turn.  `external`: names
    outside the cluster, which only the servers with a Corefile have.  `over`: a transport of dnsperf, `under_way`: its
    queries at a time, or those of h2load on each connection.  Only servers with a Corefile have TLS.  `alone`: it has
    servers of its own, as its names and those of others are more than an answer table holds.
    """

    key: str
    title: str
    questions: Callable[[Cluster, Random], list[Question]]
    edns: bool = False
    fresh: bool = False
    randomized: bool = False
    over: str = UDP
    under_way: int = 100  # queries of dnsperf
    changes: int = 0
    ports: int = FEW_PORTS
    external: bool = False
    methods: tuple[str, ...] = (DRAIN, DNSPERF)
    alone: bool = False

    @property
    def servers(self) -> tuple[int, str]:
        """The changes per second of its servers, and what tells these from others."""
        return self.changes, self.key if self.alone else ""

    @property
    def has_tls(self) -> bool:
        """Whether queries are encrypted."""
        return self.over in (DOT, DOH)

    @property
    def repeats(self) -> bool:
        """Whether queries repeat octet for octet, so that a dict of complete queries can answer them."""
        return not self.fresh and not self.randomized


def _hot(cluster: Cluster, _: Random) -> list[Question]:
    return [Question(cluster.service(each), "A") for each in range(min(HOT, cluster.services))]


def _all_names(cluster: Cluster, random: Random) -> list[Question]:
    return [_any_question(cluster, random) for _ in range(CLUSTER_QUESTIONS)]


def _any_question(cluster: Cluster, random: Random) -> Question:
    service = random.randrange(cluster.services)
    kind, at = "absent", random.random()
    for name, share in _SHARES:
        if at < share:
            kind = name
            break
        at -= share
    if kind == "service":
        return Question(cluster.service(service), "A")
    if kind == "pod":
        return Question(cluster.pod(service, random.randrange(cluster.endpoints)), "A")
    if kind == "port":
        return Question(cluster.port(service), "SRV")
    if kind == "none6":
        return Question(cluster.service(service), "AAAA")
    return Question(f"absent-{service}.{cluster.service(service).partition('.')[2]}", "A")


def _search_path(_: Cluster, random: Random) -> list[Question]:
    names = ["www.example.org"]
    names += [
        f"{_label(random, 6)}.example.{end}" for end in ("org", "com") for _ in range(EXTERNAL // 2)
    ]
    domains = (f"{POD_NAMESPACE}.{SERVICES_ZONE}", SERVICES_ZONE, ZONE)
    asked = product(names, domains, ("A", "AAAA"))
    return [Question(f"{name}.{domain}", rrtype) for name, domain, rrtype in asked]


def fresh_names(random: Random, count: int) -> list[Question]:
    """Generate names that were not queried before: half of them below the zone, half in a Namespace."""
    domains = (ZONE, f"{POD_NAMESPACE}.{SERVICES_ZONE}")
    return [Question(f"{_label(random, 12)}.{domains[index & 1]}", "A") for index in range(count)]


def _cached(_: Cluster, __: Random) -> list[Question]:
    return [Question(f"www-{each}.{CACHED_ZONE}", "A") for each in range(EXTERNAL)]


def _random_names(_: Cluster, random: Random) -> list[Question]:
    return fresh_names(random, FRESH_FIRST)


def _pods(most: int) -> Callable[[Cluster, Random], list[Question]]:
    def choose(cluster: Cluster, random: Random) -> list[Question]:
        total = cluster.services * cluster.endpoints
        chosen = random.sample(range(total), min(most, total))
        return [Question(cluster.pod(*divmod(each, cluster.endpoints)), "A") for each in chosen]

    return choose


def _label(random: Random, length: int) -> str:
    return "".join(random.choices(_LETTERS, k=length))


MIXES: Final = (
    Mix("hot", "1,000 headless Services, A records of 10 endpoints", _hot),
    Mix("ports", "the 1,000 names, queried from 900 ports instead of 20", _hot, ports=MANY_PORTS, methods=(DRAIN,)),
    Mix("cluster", "the whole cluster: A, A of a Pod, SRV, AAAA, and names that do not exist", _all_names, edns=True),
    Mix("search", "the search path of a Pod with ndots:5, A and AAAA, names that do not exist", _search_path),
    Mix("random", "random names that do not exist, each queried once", _random_names, fresh=True),
    Mix(
        "cookies",
        "the 1,000 names, each query with its own cookie and case",
        _hot,
        edns=True,
        randomized=True,
        methods=(DRAIN,),
    ),
    Mix("names-1k", "A of 1,000 pods", _pods(HOT)),
    Mix("names-100k", "A of 100,000 pods", _pods(MOST_PODS), alone=True),
    Mix("changes", "the 1,000 names while 1,000 endpoints per second change", _hot, changes=1000, methods=(DNSPERF,)),
    Mix(
        "cached",
        "100 names outside the cluster with 10 addresses, from the cache",
        _cached,
        external=True,
        methods=(DRAIN,),
    ),
    Mix("tcp", "the 1,000 names on 20 open TCP connections", _hot, over=TCP, methods=(DNSPERF,)),
    Mix("dot", "the same over TLS", _hot, over=DOT, methods=(DNSPERF,)),
    Mix("doh", "GET requests for them on 20 open HTTP/2 connections, one at a time on each, by h2load", _hot,
        over=DOH, under_way=1, methods=(DNSPERF,)),
    Mix("streams", "the same, 20 at a time on each", _hot, over=DOH, under_way=20, methods=(DNSPERF,)),
)  # fmt: skip
BY_KEY: Final = {mix.key: mix for mix in MIXES}

_COOKIE = 10


class ReplySummary(NamedTuple):
    """The fields in which two servers must agree."""

    rcode: int
    records: int  # in the answer section


def randomize(query: bytes, random: Random) -> bytes:
    """Add a random cookie and random case to a query that ends with an OPT record without options."""
    end = query.index(0, 12)
    name = bytes(
        octet ^ 0x20 if 0x61 <= octet <= 0x7A and random.getrandbits(1) else octet
        for octet in query[12:end]
    )
    option = _COOKIE.to_bytes(2, "big") + b"\0\x08" + random.randbytes(8)
    return query[:12] + name + query[end:-2] + len(option).to_bytes(2, "big") + option


def queries(mix: Mix, questions: list[Question], random: Random) -> list[bytes]:
    """Write the questions of a mix."""
    written = [query_of(*each, edns=mix.edns) for each in questions]
    return [randomize(each, random) for each in written] if mix.randomized else written


def summarize(reply: bytes) -> ReplySummary:
    """Read a reply's header."""
    return ReplySummary(reply[3] & 15, int.from_bytes(reply[6:8], "big"))
