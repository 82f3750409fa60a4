"""The interface of sources, which deliver the objects of a cluster to the kubernetes plugin as events.

Path: source -> Store.apply.  Each file in hsdns/sources/ implements a source; the Corefile property `source NAME
ARGUMENT...` selects one; without it the source is the API server.
Rule 1: deliver() applies a batch in one call, event by event; a query may see the effect of the first events only.
        Only one thread calls it.
Rule 2: Synced follows the objects that existed at the start.  A source reports invalid input and delivers nothing of
        it, so that the previous state is still served.

Objects that are read on demand: a store keeps packed values, and neither pods nor endpoints that are not ready:
Rule 1: the question bounds what is read: the objects of a few Services, their pods, their namespaces.
Rule 2: a part that cannot be read is a Fault; the other parts are returned.
A PodReading is one pod, read for the way a program in it looks up names: resolver/resolv_conf.py makes its resolv.conf.

Objects in memory, indexed for the lookups of a question:
Rule: no search: Services and slices are indexed by the Service that they belong to, pods by their namespace.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice
from random import Random
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol, Self

from hsdns.cluster.address import pack_address
from hsdns.cluster.controllers.kinds import PodSpec
from hsdns.cluster.objects import EndpointSlice, Event, Namespace, Object, Pod, Service
from hsdns.cluster.pack import import_owner, pack_key, pack_label, slice_owner
from hsdns.cluster.value import Key
from hsdns.corefile.tree import Token
from hsdns.metrics import Registry

if TYPE_CHECKING:
    from hsdns.cluster.controllers.network_policy import Denial

MAX_PODS: Final = 500  # pods of a Service that are read
OTHER_PODS: Final = 50  # pods of the namespace that are read if a selector matches none


class Lead(NamedTuple):
    """What to read for a question: namespaces, Services (or ServiceImports, if `shared`), a pod address as text.

    `pod` is the name of pods in any namespace, or of their workload, which is read as far as that is possible.
    """

    namespaces: tuple[bytes, ...] = ()
    services: tuple[Key, ...] = ()
    address: str = ""
    shared: bool = False
    pod: str = ""


class Fault(NamedTuple):
    """A sentence about what could not be read; `kind` is the kind of the objects, "" for all."""

    sentence: str
    kind: str = ""


class Reading(NamedTuple):
    """The objects read, what could not be read, and a sentence about each object that the source refuses."""

    objects: tuple[Object, ...] = ()
    faults: tuple[Fault, ...] = ()
    refused: tuple[str, ...] = ()


class PodUnreadable(Exception):
    """The pod does not exist or cannot be read; the message is a sentence for the operator."""


class PodReading(NamedTuple):
    """A pod as its source has it now.

    `servers` are addresses at which the cluster's DNS answers it, with their origins.  `denied` has the transports over
    which NetworkPolicies block the way to such an address, each with a sentence; None if these could not be read, and
    `unread` says why.  `cluster_dns` is the address that the kubelets write, if their ConfigMap could be read.
    `caches` are addresses of NodeLocal DNSCache.
    """

    spec: PodSpec
    addresses: tuple[str, ...]
    servers: Mapping[str, str] = {}
    denied: Callable[[str], Mapping[str, Denial]] | None = None
    unread: str = ""
    cluster_dns: str = ""
    caches: frozenset[str] = frozenset()


Deliver = Callable[[Sequence[Event]], None]


class Report(Protocol):
    """Passes a sentence on to the operator."""

    def __call__(self, level: int, message: str) -> None:
        """Report; `level` is a level of module logging."""


class Surroundings(Protocol):
    """The random numbers, metrics and clocks that a source uses; chain.Runtime implements it."""

    random: Random
    metrics: Registry

    def clock(self) -> float:
        """Monotonic seconds."""

    def wall(self) -> float:
        """Seconds since the epoch."""


class Source(Protocol):
    """Delivers the objects of a cluster and their changes."""

    def check(self) -> list[str]:
        """Sentences about what is missing (files, for example), for -validate and the log; makes no connections."""

    def load(self, deliver: Deliver, report: Report) -> None:
        """Deliver what is available without waiting, and Synced if that is everything; called before watch()."""

    async def watch(self, deliver: Deliver, report: Report, around: Surroundings) -> None:
        """Deliver objects and their changes until cancelled."""

    async def read(self, lead: Lead) -> Reading:
        """The current objects for a question; call it on the event loop that runs watch()."""

    def silence(self, now: float) -> float:
        """Seconds since the source last knew the state, 0.0 if it always knows it; `now` in monotonic seconds."""


class NamedSource(Source, Protocol):
    """A source that the property `source NAME ARGUMENT...` can select."""

    @classmethod
    def setup(cls, name: Token, args: Sequence[Token], base_dir: str) -> Self:
        """Parse the arguments of `source`; raise CorefileError.  Opens nothing; paths are relative to `base_dir`."""


class ObjectIndex:
    """The objects of a source."""

    def __init__(self, objects: Iterable[Object] = ()) -> None:
        self._namespaces: dict[bytes | None, Namespace] = {}
        self._parts: dict[Key | None, list[Object]] = {}
        self._pods: dict[bytes | None, dict[str, Pod]] = {}
        # By address: the keys of the Services that have an endpoint there which is not ready, and the pods.
        self._owners: dict[bytes | None, list[Key | None]] = {}
        self._pods_with: dict[bytes | None, list[Pod]] = {}
        for each in objects:
            self._add(each)

    def _add(self, each: Object) -> None:
        meta = each.metadata
        if isinstance(each, Namespace):
            self._namespaces[pack_label(meta.name)] = each
        elif isinstance(each, Pod):
            self._pods.setdefault(pack_label(meta.namespace), {})[meta.name] = each
            if each.status.pod_ip:
                self._pods_with.setdefault(pack_address(each.status.pod_ip), []).append(each)
        elif isinstance(each, EndpointSlice):
            for owner in {slice_owner(meta), import_owner(meta)}:
                self._parts.setdefault(owner, []).append(each)
            for endpoint in each.endpoints or ():
                if endpoint.conditions is not None and endpoint.conditions.ready is False:
                    for text in endpoint.addresses or ():
                        owners = self._owners.setdefault(pack_address(text), [])
                        owners.append(slice_owner(meta))
        else:
            self._parts.setdefault(pack_key(meta), []).append(each)

    def find(self, lead: Lead) -> list[Object]:
        """The objects that a question leads to."""
        found: dict[int, Object] = {}
        address = pack_address(lead.address) if lead.address else None
        keys = [*lead.services, *(self._owners.get(address, ()) if address else ())]
        for key in keys:
            for each in self._parts.get(key, ()) if key is not None else ():
                found[id(each)] = each
        namespaces = [*lead.namespaces, *(key[0] for key in keys if key is not None)]
        for namespace in namespaces:
            if namespace in self._namespaces:
                place = self._namespaces[namespace]
                found[id(place)] = place
        parts = list(found.values())
        for pod in self._pods_of(parts):
            found[id(pod)] = pod
        for pod in self._pods_with.get(address, ()) if address else ():
            found[id(pod)] = pod
        every = (each for pods in self._pods.values() for each in pods.values()) if lead.pod else ()
        named = (each for each in every if f"{each.metadata.name}-".startswith(f"{lead.pod}-"))
        for pod in islice(named, MAX_PODS):
            found[id(pod)] = pod
        return list(found.values())

    def _pods_of(self, parts: list[Object]) -> Iterable[Pod]:
        """The pods of the endpoints and of the selectors; other pods of the namespace if a selector matches none."""
        for each in parts:
            known = self._pods.get(pack_label(each.metadata.namespace), {})
            if isinstance(each, EndpointSlice):
                for endpoint in (each.endpoints or ())[:MAX_PODS]:
                    name = endpoint.target_ref.name if endpoint.target_ref else None
                    if name in known:
                        yield known[name]
            elif isinstance(each, Service) and (selector := each.spec.selector):
                looked = list(islice(known.values(), MAX_PODS))
                matched = [
                    pod for pod in looked if selector.items() <= (pod.metadata.labels or {}).items()
                ]
                yield from matched or looked[:OTHER_PODS]
