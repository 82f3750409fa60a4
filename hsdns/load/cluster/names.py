"""Questions about the names that a cluster has, by kind.

Path: cli/load.py reads -mix and -zipf, verify/truth.py the cluster -> here -> load/questions.py.
Rule 1: names are those that the cluster's zones answer when the test begins (answer_set.py).
Rule 2: a kind gets its share of all queries, regardless of its number of names.  Within a kind, names are drawn
        uniformly or by Zipf's law, in an order that depends only on the seed.
Rule 3: a kind without names in the cluster leaves its share to the others, unless -mix contains it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from random import Random
from typing import TYPE_CHECKING, Final, TypeVar

from hsdns.cluster.address import is_reverse
from hsdns.cluster.schema import POD, SVC
from hsdns.cluster.value import HEADLESS
from hsdns.load.errors import LoadError
from hsdns.load.pods import EXTERNAL, REVERSE, TXT, Target
from hsdns.load.questions import ABSENT, Question, Questions, read_shares, zipf
from hsdns.wire.iana import ADDRESSES, RRType
from hsdns.wire.name import Name

if TYPE_CHECKING:
    from hsdns.cluster.answer_set import AnswerSet

# The kinds of names, and their shares of all queries without -mix.
KINDS: Final[Mapping[str, int]] = {
    "service": 40,  # a Service with a cluster IP
    "headless": 20,  # a headless Service
    "srv": 10,  # the ports of a Service
    "endpoint": 10,  # one endpoint of a Service
    "pod": 0,  # a pod by its address; only if the Corefile has `pods`
    REVERSE: 10,  # an address
    ABSENT: 10,  # a Service that does not exist
}
MOST: Final = 200_000  # names of each kind
_ABSENT_NAMES: Final = 4  # in each namespace


# The same for lookups of pods: names with addresses, ports of Services, addresses, TXT records of Services, of which
# there are none, and names outside the cluster, if any.
POD_KINDS: Final[Mapping[str, int]] = {
    "service": 50,
    "headless": 20,
    "endpoint": 10,
    "srv": 0,
    REVERSE: 0,
    TXT: 0,
    ABSENT: 10,
    EXTERNAL: 10,
}


def read_mix(text: str, known: Mapping[str, int] = KINDS) -> dict[str, int]:
    """Read -mix: `KIND=SHARE`, separated by commas; raise LoadError.  Shares are relative to their sum."""
    unknown = f" that pods look up; there are {', '.join(known)}"
    return read_shares(
        text,
        known,
        "mix",
        "kind of name",
        nothing=", so nothing would be queried",
        unknown=lambda kind: unknown if kind in KINDS else "",
    )


def cluster_questions(
    answer_sets: Sequence[AnswerSet],
    mix: Mapping[str, int] | None,
    exponent: float,
    seed: int,
    mixes: Sequence[Mapping[str, int]] = (),
) -> Questions:
    """Questions about the names of kubernetes blocks; raise LoadError.

    `mix` None: the shares of KINDS.  `mixes` are those of stages in its place.
    """
    by_kind: dict[str, list[Question]] = {kind: [] for kind in KINDS}
    with_pods = any(each.get("pod") for each in (mix or KINDS, *mixes))
    for answer_set in answer_sets:
        for question in _questions(answer_set, with_pods=with_pods):
            if len(by_kind[question.group]) < MOST:
                by_kind[question.group].append(question)
    if mixes:
        mix = {kind: int(any(each.get(kind) for each in mixes)) for kind in KINDS}
    found, weights = _weighted(by_kind, mix, KINDS, exponent, seed)
    pairs = list(zip(found, weights, strict=True)) if mixes else []
    of_stages = [[each.get(asked.group, 0) * weight for asked, weight in pairs] for each in mixes]
    return Questions(found, weights, seed, mixes=of_stages)


def cluster_targets(
    answer_set: AnswerSet,
    external: Sequence[str],
    mix: Mapping[str, int] | None,
    exponent: float,
    seed: int,
) -> tuple[Name, list[Target], list[float]]:
    """The domain of a cluster, the names that its pods look up, and their weights; raise LoadError.

    `mix` None: the shares of POD_KINDS.  `external` are names outside the cluster.
    """
    zones = [each for each in answer_set.forward_zones if not answer_set.lookup.is_multicluster(each)]  # fmt: skip
    if not zones:
        raise LoadError("--pods needs a cluster with a zone for names, such as cluster.local")
    zone = zones[0]
    by_kind: dict[str, list[Target]] = {kind: [] for kind in POD_KINDS}
    by_kind[EXTERNAL] = [Target(name.rstrip("."), "", EXTERNAL) for name in external]
    known: set[Name] = set()
    for question in _questions(answer_set):
        name, _, kind = question[:3]
        if kind not in POD_KINDS or name in known or len(by_kind[kind]) == MOST:
            continue
        known.add(name)
        if kind == REVERSE:
            by_kind[kind].append(Target(name.to_text().removesuffix("."), "", kind))
        elif name.longest_of(zones) == zone:
            *labels, namespace, _ = (label.decode("latin-1") for label in name.below(zone))
            by_kind[kind].append(Target(".".join(labels), namespace, kind))
    if (mix or POD_KINDS).get(TXT):
        services = by_kind["service"] + by_kind["headless"]
        by_kind[TXT] = [Target(each.labels, each.namespace, TXT) for each in services]
    return zone, *_weighted(by_kind, mix, POD_KINDS, exponent, seed)


T = TypeVar("T")


def _weighted(
    by_kind: Mapping[str, list[T]],
    mix: Mapping[str, int] | None,
    usual: Mapping[str, int],
    exponent: float,
    seed: int,
) -> tuple[list[T], list[float]]:
    """The items of all kinds, and their weights; raise LoadError."""
    for kind, share in (mix or {}).items():
        if share and not by_kind[kind]:
            add = "add --external NAME..., or remove it" if kind == EXTERNAL else "remove it"
            raise LoadError(f"--mix: the cluster has no names of the kind {kind}; {add}")
    if not any(len(found) for kind, found in by_kind.items() if kind not in (ABSENT, EXTERNAL)):
        raise LoadError(
            "the cluster has no names, so there is nothing to query; --queries FILE takes names from a file"
        )
    random = Random(seed)
    found: list[T] = []
    weights: list[float] = []
    for kind, share in (mix or usual).items():
        names = by_kind[kind]
        if not names or not share:
            continue
        random.shuffle(names)
        ranks = list(zipf(len(names), exponent))
        total = sum(ranks)
        found += names
        weights += [share * rank / total for rank in ranks]
    return found, weights


def _questions(answer_set: AnswerSet, *, with_pods: bool = False) -> Iterator[Question]:
    pods = with_pods and answer_set.lookup.pods != "disabled"
    for zone in answer_set.zones:
        values = answer_set.lookup.values(zone)
        for rrset in answer_set.of_zone(zone):
            owner, qtype = rrset[0].owner, rrset[0].rrtype
            if qtype == RRType.PTR and is_reverse(owner):
                yield Question(owner, qtype, REVERSE)
                continue
            labels = owner.below(zone) if owner.is_at_or_below(zone) else ()
            if len(labels) < 3 or labels[-1] != SVC:
                continue
            value = values.get((labels[-2], labels[-3]))
            if value is None or qtype == RRType.CNAME:
                continue
            if qtype == RRType.SRV:
                if len(labels) == 5:
                    yield Question(owner, qtype, "srv")
            elif qtype in ADDRESSES and len(labels) == 3:
                yield Question(owner, qtype, "headless" if value.kind == HEADLESS else "service")
            elif qtype in ADDRESSES and len(labels) == 4:
                yield Question(owner, qtype, "endpoint")
                if pods and qtype == RRType.A:
                    yield _pod(rrset[0].rdata, labels[-2], zone)
        if answer_set.forward_zones and zone in answer_set.forward_zones:
            for namespace in sorted(answer_set.exposed_namespaces()):
                for number in range(_ABSENT_NAMES):
                    label = b"absent-%d" % number
                    if (namespace, label) not in values:
                        name = Name.from_labels((label, namespace, SVC, *zone.labels))
                        yield Question(name, RRType.A, ABSENT)


def _pod(address: bytes, namespace: bytes, zone: Name) -> Question:
    label = b"-".join(b"%d" % octet for octet in address)
    return Question(Name.from_labels((label, namespace, POD, *zone.labels)), RRType.A, "pod")
