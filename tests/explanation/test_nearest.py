"""Over generated clusters: what people confuse is said by its right name, and random names have no hint.

HSDNS_CONFUSIONS sets how many clusters are drawn (8 without it).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from random import Random
from string import ascii_lowercase
from typing import Final, NamedTuple

from hypothesis import given, settings

from hsdns.cluster.objects import Object
from hsdns.explanation.report import Explanation
from hsdns.wire.iana import Rcode, type_from_text
from hsdns.wire.name import Name
from tests import strategies
from tests.explanation.test_properties import PHASES, Case, Explaining, ask
from tests.support.cluster.explained import named_pod
from tests.support.cluster.objects import endpoint_slice, namespace, service

CLUSTERS: Final = int(os.environ.get("HSDNS_CONFUSIONS", "8"))
RANDOM: Final = 12  # random names for each cluster
ZONE: Final = "cluster.local"
WORDS: Final = (
    "account api audit billing cart catalog checkout consul etcd events feed gateway ingest inventory kafka ledger "
    "mailer metrics mongo mysql nats order payment postgres rabbit redis search session shipping stock user vault web"
).split()
SPACES: Final = "shop prod staging monitoring data-platform team-blue kube-system infra".split()
PORTS: Final = (
    "http/TCP/8080",
    "grpc/TCP/9090",
    "metrics/TCP/9102",
    "dns/UDP/53",
    "client/TCP/6379",
)


class Target(NamedTuple):
    """An object with a name that resolves; `host` is a pod of a StatefulSet, `base` the name of its workload."""

    place: str
    name: str
    base: str
    replicas: int
    port: str
    protocol: str
    number: str
    address: str  # of the first pod
    pod: str  # of a Deployment, else ""

    @property
    def service(self) -> str:
        return f"{self.name}.{self.place}.svc"

    @property
    def host(self) -> str:
        return f"{self.base}-{self.replicas - 1}"

    @property
    def srv(self) -> str:
        return f"_{self.port}._{self.protocol}.{self.service}"


def cluster(random: Random) -> tuple[list[Object], list[Target]]:
    """Services with pods of StatefulSets and Deployments, some of the same name in up to three namespaces."""
    objects: list[Object] = []
    targets: list[Target] = []
    words = random.sample(WORDS, len(WORDS))
    places = random.sample(SPACES, random.randint(2, len(SPACES)))
    for place in places:
        objects.append(namespace(place))
        for _ in range(random.randint(1, 4)):
            if len(words) < 2:
                break
            base = words.pop()
            if random.random() < 0.4:
                base += f"-{words.pop()}"
            name = base + random.choice(["", "", "-headless", "-svc"])
            known = random.choice(targets) if targets and random.random() < 0.3 else None
            same = [each.place for each in targets if known is not None and each.name == known.name]
            if known is not None and place not in same and len(same) < 3:
                name, base = known.name, known.base
            count, number = random.randint(1, 4), len(targets) + 1
            is_set = random.random() < 0.6
            port, protocol, at = random.choice(PORTS).split("/")
            endpoints = []
            pod = ""
            for index in range(count):
                address = f"10.{number}.0.{index + 1}"
                if is_set:
                    own = f"{base}-{index}"
                    objects.append(
                        named_pod(f"{place}/{own}", address, hostname=own, subdomain=name)
                    )
                    endpoints.append(f"{address} host={own} pod={own}")
                else:
                    own = f"{base}-6b7f9d8c5{index}-x2x5{'bcdf'[index]}"
                    objects.append(named_pod(f"{place}/{own}", address))
                    endpoints.append(f"{address} pod={own}")
                    pod = pod or own
            ports = [f"{port}/{protocol}/{at}"]
            objects.append(
                service(f"{place}/{name}", *([] if is_set else [f"10.96.0.{number}"]), ports=ports)
            )
            objects.append(endpoint_slice(f"{place}/{name}-1", name, *endpoints, ports=ports))
            targets.append(
                Target(
                    place, name, base, count, port, protocol.lower(), at, f"10.{number}.0.1", pod
                )
            )
    return objects, targets


def mistyped(word: str, random: Random) -> str:
    """A word with a slip of a finger."""
    at = random.randrange(1, len(word))
    keys = {
        "a": "s",
        "e": "r",
        "i": "o",
        "o": "p",
        "t": "y",
        "n": "m",
        "s": "d",
        "r": "t",
        "c": "v",
    }
    return random.choice([
        word[:at] + word[at - 1] + word[at:],
        word[: at - 1] + word[at] + word[at - 1] + word[at + 1 :],
        word[: at - 1] + word[at:] if len(word) > 4 else word + word[-1],
        word[:at] + keys.get(word[at], word[at] * 2) + word[at + 1 :],
    ])  # fmt: skip


Confusion = Callable[[Target, list[Target], Random], "tuple[str, str] | None"]


def other(target: Target, targets: list[Target], random: Random) -> str:
    return random.choice([each.place for each in targets if each.place != target.place] or [""])


# What is typed, and what is meant; "SRV" stands before names of that type.
CONFUSIONS: Final[dict[str, Confusion]] = {
    "another namespace": lambda t, ts, r: (f"{t.name}.{other(t, ts, r)}.svc.{ZONE}", t.service),
    "a host in another namespace": lambda t, ts, r: (
        None if t.pod else (f"{t.host}.{t.name}.{other(t, ts, r)}.svc.{ZONE}", f"{t.host}.{t.service}")
    ),
    "a namespace that is missing": lambda t, ts, r: (f"{t.name}.svc.{ZONE}", t.service),
    "a host without a namespace": lambda t, ts, r: (
        None if t.pod else (f"{t.host}.{t.name}.svc.{ZONE}", f"{t.host}.{t.service}")
    ),
    "svc that is missing": lambda t, ts, r: (f"{t.name}.{t.place}.{ZONE}", t.service),
    "svc as a word": lambda t, ts, r: (f"{t.name}.{t.place}.{r.choice(['srv', 'service', 'scv', 'svcs'])}.{ZONE}", t.service),
    "svc before the namespace": lambda t, ts, r: (f"{t.name}.svc.{t.place}.{ZONE}", t.service),
    "pod for svc": lambda t, ts, r: (f"{t.name}.{t.place}.pod.{ZONE}", t.service),
    "a host below pod": lambda t, ts, r: None if t.pod else (f"{t.host}.{t.place}.pod.{ZONE}", f"{t.host}.{t.service}"),
    "a host of a Service below pod": lambda t, ts, r: (
        None if t.pod else (f"{t.host}.{t.name}.{t.place}.pod.{ZONE}", f"{t.host}.{t.service}")
    ),
    "another domain": lambda t, ts, r: (f"{t.service}.{r.choice(['k8s.lab', 'cluster.lokal', 'cluster', 'local', 'corp'])}", t.service),
    "a part of the domain without svc": lambda t, ts, r: (
        f"{t.name}.{t.place}.{r.choice(['local', 'cluster', 'cluster.lokal'])}", t.service
    ),
    "exchanged, and short": lambda t, ts, r: (f"{t.place}.{t.name}", t.service),
    "a port behind its Service": lambda t, ts, r: (f"SRV {t.name}._{t.port}._{t.protocol}.{t.place}.svc.{ZONE}", t.srv),
    "no domain": lambda t, ts, r: (t.service, t.service),
    "neither svc nor domain": lambda t, ts, r: (f"{t.name}.{t.place}", t.service),
    "a single label": lambda t, ts, r: (t.name, t.service),
    "the domain twice": lambda t, ts, r: (f"{t.service}.{ZONE}.{ZONE}", t.service),
    "a whole name behind the search list": lambda t, ts, r: (f"{t.service}.{ZONE}.{other(t, ts, r)}.svc.{ZONE}", t.service),
    "a name with svc behind the search list": lambda t, ts, r: (f"{t.service}.{other(t, ts, r)}.svc.{ZONE}", t.service),
    "a short name behind the search list": lambda t, ts, r: (f"{t.name}.{t.place}.{other(t, ts, r)}.svc.{ZONE}", t.service),
    "the Service twice": lambda t, ts, r: (f"{t.name}.{t.service}.{ZONE}", t.service),
    "the namespace twice": lambda t, ts, r: (f"{t.name}.{t.place}.{t.place}.svc.{ZONE}", t.service),
    "svc twice": lambda t, ts, r: (f"{t.service}.svc.{ZONE}", t.service),
    "exchanged": lambda t, ts, r: (f"{t.place}.{t.name}.svc.{ZONE}", t.service),
    "a host for a Service": lambda t, ts, r: None if t.pod else (f"{t.host}.{t.place}.svc.{ZONE}", f"{t.host}.{t.service}"),
    "a host alone": lambda t, ts, r: None if t.pod else (t.host, f"{t.host}.{t.service}"),
    "a host elsewhere": lambda t, ts, r: (
        None if t.pod else (f"{t.host}.{other(t, ts, r)}.svc.{ZONE}", f"{t.host}.{t.service}")
    ),
    "a host below another Service": lambda t, ts, r: (
        None if t.pod else (f"{t.host}.{r.choice(ts).name}.{t.place}.svc.{ZONE}", f"{t.host}.{t.service}")
    ),
    "a StatefulSet for its Service": lambda t, ts, r: (
        None if t.pod or t.base == t.name else (f"{t.base}.{t.place}.svc.{ZONE}", t.service)
    ),
    "an ordinal beyond the replicas": lambda t, ts, r: (
        None
        if t.pod
        else (
            f"{t.base}-{t.replicas + r.randrange(3)}.{t.service}.{ZONE}",
            f"{t.base} has {t.replicas} replica{'s' * (t.replicas > 1)}: {t.base}-0",
        )
    ),
    "a Deployment's pod": lambda t, ts, r: (f"{t.pod}.{t.place}.svc.{ZONE}", t.service) if t.pod else None,
    "a Deployment's pod below pod": lambda t, ts, r: (
        (f"{t.pod}.{t.place}.pod.{ZONE}", f"{t.address.replace('.', '-')}.{t.place}.pod") if t.pod else None
    ),
    "an address with dots": lambda t, ts, r: (
        f"{t.address}.{t.place}.pod.{ZONE}", f"{t.address.replace('.', '-')}.{t.place}.pod",
    ),
    "an address below svc": lambda t, ts, r: (
        f"{t.address.replace('.', '-')}.{t.place}.svc.{ZONE}", f"{t.address.replace('.', '-')}.{t.place}.pod",
    ),
    "an address in another namespace": lambda t, ts, r: (
        f"{t.address.replace('.', '-')}.nowhere.pod.{ZONE}", f"{t.address.replace('.', '-')}.{t.place}.pod",
    ),
    "protocol before port": lambda t, ts, r: (f"SRV _{t.protocol}._{t.port}.{t.service}.{ZONE}", t.srv),
    "a port without protocol": lambda t, ts, r: (f"SRV _{t.port}.{t.service}.{ZONE}", t.srv),
    "a protocol without port": lambda t, ts, r: (f"SRV _{t.protocol}.{t.service}.{ZONE}", t.srv),
    "a port without underscore or protocol": lambda t, ts, r: (f"SRV {t.port}.{t.service}.{ZONE}", t.srv),
    "the other protocol": lambda t, ts, r: (
        f"SRV _{t.port}._{'udp' if t.protocol == 'tcp' else 'tcp'}.{t.service}.{ZONE}", t.srv,
    ),
    "a number for a port": lambda t, ts, r: (f"SRV _{t.number}._{t.protocol}.{t.service}.{ZONE}", t.srv),
    "a port mistyped": lambda t, ts, r: (f"SRV _{mistyped(t.port, r)}._{t.protocol}.{t.service}.{ZONE}", t.srv),
    "a port without a namespace": lambda t, ts, r: (f"SRV _{t.port}._{t.protocol}.{t.name}.svc.{ZONE}", t.srv),
    "the Service for a port": lambda t, ts, r: (f"SRV _{t.name}._{t.protocol}.{t.place}.svc.{ZONE}", t.srv),
    "a Service mistyped": lambda t, ts, r: (f"{mistyped(t.name, r)}.{t.place}.svc.{ZONE}", t.service),
    "a namespace mistyped": lambda t, ts, r: (f"{t.name}.{mistyped(t.place, r)}.svc.{ZONE}", t.service),
    "a host of a Service mistyped": lambda t, ts, r: (
        None if t.pod else (f"{t.host}.{mistyped(t.name, r)}.{t.place}.svc.{ZONE}", f"{t.host}.{t.service}")
    ),
    "a host mistyped": lambda t, ts, r: (
        None if t.pod else (f"{mistyped(t.base, r)}-0.{t.service}.{ZONE}", f"{t.base}-0.{t.service}")
    ),
    "underscores": lambda t, ts, r: (
        (f"{t.name.replace('-', '_')}.{t.place}.svc.{ZONE}", t.service) if "-" in t.name else None
    ),
    "a release in front": lambda t, ts, r: (f"prod-{t.name}.{t.place}.svc.{ZONE}", t.service),
    "a part behind": lambda t, ts, r: (f"{t.name}-{r.choice(['svc', 'service', 'headless'])}.{t.place}.svc.{ZONE}", t.service),
    "a part left out": lambda t, ts, r: (
        (f"{t.name.rpartition('-')[0]}.{t.place}.svc.{ZONE}", t.service) if "-" in t.name else None
    ),
}  # fmt: skip


class Asked(NamedTuple):
    kind: str
    typed: str
    meant: str
    found: Explanation


def planted(random: Random, *unknown: type[Object]) -> Iterator[Asked]:
    """Every confusion of one object of a cluster, except where what is typed exists; some kinds are not known."""
    objects, targets = cluster(random)
    objects = [each for each in objects if not isinstance(each, unknown)]
    case = Case({"pods": "verified"}, "", "")
    serving, explaining = case.server(objects), Explaining(case, objects)
    for kind, confuse in CONFUSIONS.items():
        made = confuse(random.choice(targets), targets, random)
        if made is None:
            continue
        typed, meant = made
        rrtype, _, name = typed.rpartition(" ")
        qname, qtype = Name.from_text(name), type_from_text(rrtype or "A")
        if ask(serving, qname, qtype).rcode != Rcode.NOERROR:
            yield Asked(kind, typed, meant, explaining.ask(qname, qtype))


def is_said(asked: Asked) -> bool:
    name = asked.meant if " " in asked.meant else f"{asked.meant}.{ZONE}"
    return name in asked.found.cause


@settings(deadline=None, max_examples=CLUSTERS, phases=PHASES)
@given(strategies.seeds)
def test_what_people_confuse_is_said_by_its_name(seed: int) -> None:
    asked = list(planted(Random(seed)))
    missed = [each for each in asked if not is_said(each)]
    assert len(missed) <= 0.05 * len(asked), [
        (each.kind, each.typed, each.found.cause) for each in missed
    ]


def random_names(targets: list[Target], random: Random) -> Iterator[str]:
    """Random text in the places of labels."""

    def text() -> str:
        return "".join(random.choices(ascii_lowercase, k=random.randint(5, 14)))

    t = random.choice(targets)
    yield f"{text()}.{t.place}.svc.{ZONE}"
    yield f"{text()}.{text()}.svc.{ZONE}"
    yield f"{text()}.{t.service}.{ZONE}"
    yield f"{text()}-{random.randrange(9)}.{t.service}.{ZONE}"
    yield f"{text()}-{text()}.{t.place}.svc.{ZONE}"
    yield f"{text()}.{ZONE}"
    yield f"{text()}.{text()}"
    yield f"{text()}.{text()}.com"
    yield f"www.{text()}.org"
    yield f"_{text()}._tcp.{t.service}.{ZONE}"
    yield f"{text()}.{t.place}.pod.{ZONE}"
    yield text()


@settings(deadline=None, max_examples=CLUSTERS, phases=PHASES)
@given(strategies.seeds)
def test_random_names_have_no_hint(seed: int) -> None:
    random = Random(seed)
    objects, targets = cluster(random)
    explaining = Explaining(Case({"pods": "verified"}, "", ""), objects)
    for name in random_names(targets, random):
        found = explaining.ask(Name.from_text(name), 1)
        assert (found.nearest, found.outcome) == ([], "does not resolve"), (name, found.cause)
