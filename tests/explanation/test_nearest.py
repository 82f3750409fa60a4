"""Over generated clusters: what people confuse is said by its right name (confusions.txt), and random names have no hint.

HSDNS_CONFUSIONS sets how many clusters are drawn (8 without it).
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from random import Random
from string import ascii_lowercase
from typing import Final

from hypothesis import given, settings

from hsdns.cluster.objects import Object
from hsdns.wire.iana import Rcode, type_from_text
from hsdns.wire.name import Name
from tests import strategies
from tests.explanation.test_properties import PHASES, Case, Explaining, ask
from tests.support.cluster.explained import named_pod
from tests.support.cluster.objects import endpoint_slice, namespace, service

CLUSTERS: Final = int(os.environ.get("HSDNS_CONFUSIONS", "8"))
ZONE: Final = "cluster.local"
CASE: Final = Case({"pods": "verified"}, "", "")
CONFUSIONS, RANDOM = (
    part.partition("\n")[2].strip().splitlines()
    for part in Path(__file__).with_name("confusions.txt").read_text().split("\n== ")[1:]
)
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
NEXT: Final = {
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
Fields = dict[str, str]


def cluster(random: Random) -> tuple[list[Object], list[Fields]]:
    """Services with pods of StatefulSets and Deployments, some of the same name in up to three namespaces."""
    objects: list[Object] = []
    targets: list[Fields] = []
    words = random.sample(WORDS, len(WORDS))
    for place in random.sample(SPACES, random.randint(2, len(SPACES))):
        objects.append(namespace(place))
        for _ in range(min(random.randint(1, 4), len(words) // 2)):
            base = words.pop() + (f"-{words.pop()}" if random.random() < 0.4 else "")
            name = base + random.choice(["", "", "-headless", "-svc"])
            known = random.choice(targets) if targets and random.random() < 0.3 else {}
            same = [each["place"] for each in targets if each["name"] == known.get("name")]
            if known and place not in same and len(same) < 3:
                name, base = known["name"], known["workload"]
            made, target = service_of(place, name, base, len(targets) + 1, random)
            objects += made
            targets.append(target)
    return objects, targets


def service_of(
    place: str, name: str, base: str, number: int, random: Random
) -> tuple[list[Object], Fields]:
    """A Service with its pods, and its fields."""
    count, is_set = random.randint(1, 4), random.random() < 0.6
    port, protocol, at = random.choice(PORTS).split("/")
    ending = "-{0}" if is_set else "-6b7f9d8c5{0}-x2x5{1}"
    pods = [base + ending.format(index, "bcdf"[index]) for index in range(count)]
    addresses = [f"10.{number}.0.{index + 1}" for index in range(count)]
    objects: list[Object] = [
        named_pod(f"{place}/{pod}", address, hostname=pod, subdomain=name)
        if is_set
        else named_pod(f"{place}/{pod}", address)
        for pod, address in zip(pods, addresses, strict=True)
    ]
    hosts = [f" host={pod}" if is_set else "" for pod in pods]
    endpoints = [
        f"{a}{host} pod={pod}" for a, host, pod in zip(addresses, hosts, pods, strict=True)
    ]
    ports = [f"{port}/{protocol}/{at}"]
    objects.append(
        service(f"{place}/{name}", *([] if is_set else [f"10.96.0.{number}"]), ports=ports)
    )
    objects.append(endpoint_slice(f"{place}/{name}-1", name, *endpoints, ports=ports))
    fields = {
        "place": place, "name": name, "own": f"{name}.{place}.svc", "workload": base, "zone": ZONE, "port": port,
        "protocol": protocol.lower(), "wrong": "udp" if protocol == "TCP" else "tcp", "number": at,
        "address": addresses[0], "dashed": addresses[0].replace(".", "-"),
    }  # fmt: skip
    if is_set:
        fields |= {
            "host": pods[-1],
            "base": base,
            "beyond": f"{base}-{count + random.randrange(3)}",
        }
        fields |= {"replicas": f"{count} replica{'s' * (count > 1)}"}
    else:
        fields |= {"pod": pods[0]}
    if "-" in name:
        fields |= {"joined": name.replace("-", "_"), "dotted": name.replace("-", ".", 1)}
    if name != base:
        fields |= {"head": base}
    return objects, fields


def slip(word: str, random: Random) -> str:
    """A word with a slip of a finger: a letter twice, two exchanged, one missing, or the key beside it."""
    at = random.randrange(1, len(word))
    return random.choice([
        word[:at] + word[at - 1 :],
        word[: at - 1] + word[at] + word[at - 1] + word[at + 1 :],
        word[: at - 1] + word[at:] if len(word) > 4 else word + word[-1],
        word[:at] + NEXT.get(word[at], word[at] * 2) + word[at + 1 :],
    ])  # fmt: skip


def drawn(target: Fields, targets: list[Fields], random: Random) -> Fields:
    """The fields of a target, and others that are drawn."""
    text, word = ("".join(random.choices(ascii_lowercase, k=random.randint(5, 14))) for _ in "ab")
    places = [each["place"] for each in targets if each["place"] != target["place"]]
    slips = {
        f"slip_{key}": slip(target[key], random)
        for key in ("name", "place", "port", "base")
        if key in target
    }
    return {
        **target, **slips, "text": text, "word": word, "other": random.choice(places or ["nowhere"]),
        "another": random.choice(targets)["name"], "svclike": random.choice(["srv", "service", "scv", "svcs"]),
        "domain": random.choice(["k8s.lab", "cluster.lokal", "cluster", "local", "corp"]),
        "part": random.choice(["local", "cluster", "cluster.lokal"]),
    }  # fmt: skip


def planted(random: Random, *unknown: type[Object]) -> Iterator[tuple[str, str, str]]:
    """Each confusion that fits an object, what must be said and what is said; some kinds of objects are not known."""
    objects, targets = cluster(random)
    objects = [each for each in objects if not isinstance(each, unknown)]
    serving, explaining = CASE.server(objects), Explaining(CASE, objects)
    for line in CONFUSIONS:
        fields: Mapping[str, str] = drawn(random.choice(targets), targets, random)
        try:
            typed, meant = line.format_map(fields).split(" => ")
        except KeyError:
            continue
        rrtype, _, name = typed.rpartition(" ")
        qname, qtype = Name.from_text(name), type_from_text(rrtype or "A")
        if ask(serving, qname, qtype).rcode != Rcode.NOERROR:
            yield line, meant, f"{typed}: {explaining.ask(qname, qtype).cause}"


@settings(deadline=None, max_examples=CLUSTERS, phases=PHASES)
@given(strategies.seeds)
def test_what_people_confuse_is_said_by_its_name(seed: int) -> None:
    asked = list(planted(Random(seed)))
    missed = [each for each in asked if each[1] not in each[2].partition(": ")[2]]
    assert len(missed) <= 0.05 * len(asked), missed


@settings(deadline=None, max_examples=CLUSTERS, phases=PHASES)
@given(strategies.seeds)
def test_random_names_have_no_hint(seed: int) -> None:
    random = Random(seed)
    objects, targets = cluster(random)
    explaining = Explaining(CASE, objects)
    for line in RANDOM:
        name = line.format_map(drawn(random.choice(targets), targets, random))
        found = explaining.ask(Name.from_text(name), 1)
        assert (found.nearest, found.outcome) == ([], "does not resolve"), (name, found.cause)
