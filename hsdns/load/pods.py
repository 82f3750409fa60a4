"""The pods of a run: their resolvers, the names that they look up, and the forms of these names.

Path: cli/settings.py makes the plan -> here, in the process that sends -> send/pods.py takes
lookups one by one.
Rule 1: the lookups depend only on the plan; the same seed gives the same lookups.
Rule 2: first a name is drawn, then its form, then the pod: one in the name's namespace if only those use that form.
Rule 3: the pods of a node have one forwarder, which keeps what it heard for all of them; Istio's agent is of one pod.
Rule 4: if each pod waits for an exponential time between its lookups, the lookups of all pods are a Poisson process
        (-arrival poisson) in which every pod is equally likely.  So there is one schedule for all pods, and a pod does
        not wait for its previous lookup.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from random import Random
from typing import Final, NamedTuple

import msgspec

from hsdns.load.errors import LoadError
from hsdns.resolver import MODELS, looks_up, model_of
from hsdns.resolver.forwarders import class_of
from hsdns.resolver.forwarders.forwarder import Between, Forwarder
from hsdns.resolver.model import Model, candidates
from hsdns.resolver.resolv_conf import PodDns, pod_resolv_conf
from hsdns.wire.iana import ADDRESSES, RRType
from hsdns.wire.name import MAX_NAME_LEN

EXTERNAL: Final = "external"  # the kind of names outside the cluster
SRV: Final = "srv"  # the kind of the ports of Services
REVERSE: Final = "reverse"  # the kind of addresses
TXT: Final = "txt"  # the kind of Services whose TXT records are looked up: there are none
_TYPES: Final = {SRV: (RRType.SRV,), REVERSE: (RRType.PTR,), TXT: (RRType.TXT,)}  # of kinds
SEARCH: Final = "search"  # the group of queries for another name than the intended one
# The forms in which programs write the name of a Service, and their shares of the lookups without -forms.
NAME, NAMESPACE, SVC, FULL, ABSOLUTE = "name", "namespace", "svc", "full", "absolute"
FORMS: Final[Mapping[str, int]] = {NAME: 40, NAMESPACE: 30, SVC: 5, FULL: 20, ABSOLUTE: 5}
RESOLVERS: Final[Mapping[str, int]] = {"glibc": 60, "musl": 20, "go": 15, "c-ares": 5}
_AT_ONCE: Final = 1024  # lookups drawn together


class Target(msgspec.Struct, frozen=True, array_like=True):
    """A name that is looked up: its labels before the namespace, such as `web` or `web-0.web`.

    A name outside the cluster, or of an address, has no namespace; `labels` is the whole name.
    """

    labels: str
    namespace: str
    kind: str


class PodPlan(msgspec.Struct, frozen=True):
    """`count` pods, distributed over `namespaces` in turn; `resolvers` and `forms` with their shares.

    `targets` are drawn by `weights`.  `resolv_confs` are the texts of the namespaces, `domain` is that of the cluster.
    `through` is a forwarder, "" for none, on each of `nodes`; `registry` has the Services that it may know.
    """

    count: int
    namespaces: list[str]
    resolv_confs: list[str]
    domain: str
    resolvers: dict[str, int]
    forms: dict[str, int]
    targets: list[Target]
    weights: list[float]
    seed: int
    through: str = ""
    nodes: int = 1
    registry: dict[str, dict[str, list[str]]] = {}

    @property
    def transport(self) -> str:
        """How queries reach the server, in words."""
        return class_of(self.through).forced.upper() or "UDP, TCP for what it truncates"


class PodLookup(NamedTuple):
    """A lookup: the number of the pod, the name as written, the intended name, and the kinds of both."""

    pod: int
    name: str
    meant: str
    kind: str
    form: str

    @property
    def types(self) -> tuple[int, ...]:
        """The types that are looked up."""
        return types_of(self.kind)


class Pods:
    """The pods of a plan; a resolver keeps its state, such as the cache of c-ares."""

    def __init__(self, plan: PodPlan) -> None:
        self.plan = plan
        random = Random(plan.seed)
        self.resolvers = _spread(plan.resolvers, plan.count)
        random.shuffle(self.resolvers)
        # Of all resolvers, in the order in which they need it.
        self._random = Random(random.random())
        self._of: dict[str, range] = {
            namespace: range(at, plan.count, len(plan.namespaces))
            for at, namespace in enumerate(plan.namespaces)
        }
        # Not every program looks up the port of a Service, or the name of an address.
        self._able = {
            kind: [at for at, name in enumerate(self.resolvers) if looks_up(name, types)]
            for kind, types in _TYPES.items()
        }
        self._idle: list[list[Model]] = [[self._new(pod)] for pod in range(plan.count)]
        self._made = [1] * plan.count
        self._forwarders: dict[int, Forwarder] = {}

    def lookups(self) -> Iterator[PodLookup]:
        """The lookups, without end."""
        plan, random = self.plan, Random(self.plan.seed)
        targets, target_weights = plan.targets, list(accumulate(plan.weights))
        forms, form_weights = list(plan.forms), list(accumulate(plan.forms.values()))
        while True:
            drawn = random.choices(targets, cum_weights=target_weights, k=_AT_ONCE)
            written = random.choices(forms, cum_weights=form_weights, k=_AT_ONCE)
            for target, form in zip(drawn, written, strict=True):
                yield self._wanted(target, form, random)

    def take(self, pod: int) -> Model | None:
        """An unused resolver of a pod: concurrent lookups have separate ones, like threads; None if all wait."""
        idle, most = self._idle[pod], MODELS[self.resolvers[pod]].most_threads
        if idle:
            return idle.pop()
        if self._made[pod] == most:
            return None
        self._made[pod] += 1
        return self._new(pod)

    def release(self, pod: int, model: Model) -> None:
        """Return a resolver after its lookup."""
        self._idle[pod].append(model)

    def forwarder(self, pod: int) -> Forwarder | None:
        """What passes the queries of a pod on, None for nothing."""
        plan = self.plan
        if not plan.through:
            return None
        kind = class_of(plan.through)
        node = pod if kind.captures else pod * plan.nodes // plan.count
        if node not in self._forwarders:
            between = Between(plan.through, plan.registry)
            if kind.splits:
                text = f"{self._resolv_conf(pod)}nameserver node\n"
                between = between._replace(text=text, domain=plan.domain)
            made = model_of(self.resolvers[pod], self._resolv_conf(pod), self._random, between)
            assert isinstance(made, Forwarder), "its name says so"
            self._forwarders[node] = made
        return self._forwarders[node]

    def _new(self, pod: int) -> Model:
        return MODELS[self.resolvers[pod]](self._resolv_conf(pod), self._random)

    def _resolv_conf(self, pod: int) -> str:
        return self.plan.resolv_confs[pod % len(self.plan.namespaces)]

    def _wanted(self, target: Target, form: str, random: Random) -> PodLookup:
        pod = random.randrange(self.plan.count)
        if able := self._able.get(target.kind):
            pod = able[pod % len(able)]
        whole = meant(target, self.plan.domain)
        if not target.namespace:
            form = ABSOLUTE if target.kind == REVERSE else form if form == ABSOLUTE else FULL
        elif form == NAME:
            neighbours = self._of.get(target.namespace)
            if neighbours and not able:
                pod = neighbours[random.randrange(len(neighbours))]
            else:
                form = NAMESPACE
        return PodLookup(pod, _written(target, form, whole), whole, target.kind, form)


def types_of(kind: str) -> tuple[int, ...]:
    """The types that a pod looks up of a kind of name."""
    return _TYPES.get(kind, ADDRESSES)


def meant(target: Target, domain: str) -> str:
    """The whole name, without the final dot."""
    if not target.namespace:
        return target.labels
    return f"{target.labels}.{target.namespace}.svc.{domain}"


def _written(target: Target, form: str, whole: str) -> str:
    if form == NAME:
        return target.labels
    if form == NAMESPACE:
        return f"{target.labels}.{target.namespace}"
    if form == SVC:
        return f"{target.labels}.{target.namespace}.svc"
    return f"{whole}." if form == ABSOLUTE else whole


def resolv_confs(
    namespaces: Sequence[str],
    server: str,
    domain: str,
    searches: Sequence[str],
    options: Mapping[str, str],
) -> list[str]:
    """The resolv.conf of the pods of each namespace, as the kubelet writes it; `searches` are those of the node."""
    node = f"search {' '.join(searches)}\n" if searches else ""
    return [
        pod_resolv_conf(PodDns(namespace, options=options), server, domain, node)
        for namespace in namespaces
    ]


def check_names(plan: PodPlan) -> None:
    """Raise LoadError if a name with a search domain is too long for a message, or no program looks it up."""
    kinds = {each.kind for each in plan.targets}
    programs = _spread(plan.resolvers, plan.count)
    for kind in sorted(kinds):
        if not any(looks_up(each, types_of(kind)) for each in programs):
            raise LoadError(
                f"--mix: no pod looks up the kind {kind}; add a program that does, such as --resolvers go=50,glibc=50"
            )
    longest = max(plan.targets, key=lambda each: len(each.labels) + len(each.namespace))
    name = meant(longest, plan.domain)
    for text in plan.resolv_confs:
        for model in plan.resolvers:
            for tried in candidates(MODELS[model].read(text), name):
                if len(tried) + 2 > MAX_NAME_LEN:
                    raise LoadError(
                        f'"{name}" with a search domain has more than {MAX_NAME_LEN} octets: {tried}; '
                        "remove the name or the domain"
                    )


def _spread(shares: Mapping[str, int], count: int) -> list[str]:
    """Each name in proportion to its share, rounded so that the sum is `count`."""
    found: list[str] = []
    total, passed = sum(shares.values()), 0
    for name, share in shares.items():
        until = (passed + share) * count // total
        found += [name] * (until - len(found))
        passed += share
    return found
