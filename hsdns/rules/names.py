"""The names that the objects of a cluster mean to exist, and which of them fail.

Path: doctor/cli.py (a subject of diagnosis.py) -> here -> causes/failing.py.
Rule 1: objects of a cluster are judged as they are.  Of manifests that make one, it is the state after the controllers
        have made their pods and slices, as hsdns serves it.  They may lack the pods of a selector, as lint judges it.
Rule 2: names that fail because of the same object are one row, with the cause of the first of them.  Those come first
        that have failed last, as far as their objects say since when.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import suppress
from itertools import product
from typing import Final, NamedTuple

from hsdns.causes.alias import DOMAIN
from hsdns.causes.cause import Cause
from hsdns.causes.failing import failing
from hsdns.causes.intended import intended
from hsdns.causes.view import SLICES, View
from hsdns.cluster.address import is_reverse
from hsdns.cluster.controllers.document import Document
from hsdns.cluster.controllers.simulation import simulate
from hsdns.cluster.objects import Pod
from hsdns.corefile.keys import zones_from_args
from hsdns.corefile.tree import CorefileError
from hsdns.faults.selector import NO_QUERY
from hsdns.plugins.fault import Fault
from hsdns.plugins.kubernetes import Kubernetes
from hsdns.rules.checks.services import selector
from hsdns.rules.corefile_text import zones_of
from hsdns.rules.diagnosis import MAIN, Subject
from hsdns.rules.objects import Objects
from hsdns.sources.manifests import view_of
from hsdns.wire.iana import RRType
from hsdns.wire.name import Name

_RUNNING: Final = 3600.0  # seconds since the server has started


class FailingNames(NamedTuple):
    """Names that fail because of the same object: that of a Service or pod first, with the cause of that one."""

    names: list[str]
    cause: Cause


class Names(NamedTuple):
    """The names that the objects mean to exist: those that fail, how many there are, or why that is not known.

    `told` has the findings that say no more, by code and object; of `unclear` names the files may lack the pods.
    """

    failing: list[FailingNames]
    total: int
    told: Collection[tuple[str, str]] = ()
    unknown: str = ""
    unclear: Sequence[str] = ()

    @property
    def fail(self) -> int:
        """How many fail."""
        return sum(len(each.names) for each in self.failing)


def failing_names(subject: Subject) -> Names:
    """The names that fail, by their cause and in order."""
    view = _view(subject)
    if SLICES in view.unknown:
        return Names([], 0, unknown=view.unknown[SLICES])
    zone, places = _zone(subject.objects), subject.places
    view.domain, view.exposed = zone, _exposed(subject.objects)
    found: dict[tuple[str, ...], FailingNames] = {}
    told, unclear = set[tuple[str, str]](), list[str]()
    clear = None if subject.is_cluster else {each.place for each in selector(subject.objects)}
    hit = _hit_by_rules(subject.objects, zone, [each.name for each in intended(view)])
    others = ((name, cause) for name, cause in failing(view) if name not in hit)
    for name, cause in (*hit.items(), *others):
        key = service_of(name)
        service = f"Service {'/'.join(key)}"
        if places is not None and places.isdisjoint((service, cause.place)):
            continue
        if clear is not None and cause.code == "HS101" and not clear & _written(cause.place):
            unclear.append(f"{name}.{zone}")
            continue
        of = view.services.get(key)
        alias = "/".join(key) if of is not None and of.spec.external_name else ""
        alike = cause.code, cause.place, cause.todo, alias
        found.setdefault(alike, FailingNames([], cause)).names.append(f"{name}.{zone}")
        slices = (f"EndpointSlice {key[0]}/{each.metadata.name}" for each in view.slices(key))
        objects = (cause.place, service, *slices)
        told |= {(cause.code, place) for each in objects for place in _written(each)}
    groups = sorted(found.values(), key=lambda each: each.names[0].split(".")[::-1])
    groups.sort(key=lambda each: each.cause.since, reverse=True)  # the latest first
    every = (f"Service {'/'.join(service_of(each.name))}" for each in intended(view))
    total = sum(places is None or each in places for each in every) - len(unclear)
    return Names(groups, total, told, unclear=unclear)


def _written(place: str) -> set[str]:
    """How a finding may name an object: files need not name the default namespace."""
    return {place, place.replace(" default/", " ")}


def unread_of(subject: Subject, names: Names) -> dict[str, str]:
    """The main kinds that could not be read, with the reasons; of manifests, controllers make what is missing."""
    kinds = MAIN if subject.is_cluster or names.unknown else ("services",)
    return {plural: reason for plural, reason in subject.reasons.items() if plural in kinds}


def service_of(name: str) -> tuple[str, str]:
    """The namespace and the name of the Service that a name without its zone is below."""
    *_, service, namespace, _ = name.split(".")
    return namespace, service


def _view(subject: Subject) -> View:
    """The objects of the cluster, or of the one that the controllers would make of manifests."""
    listed = [each for each in subject.objects.manifests if each.object is not None]
    if subject.is_cluster:
        pairs = ((each.kind, each.object) for each in listed)
        return View(pairs, subject.reasons, is_live=True)
    documents = [
        Document(each.kind, each.object.metadata.namespace, each.name, each.object, str(each))
        for each in listed
        if each.object is not None
    ]
    view = view_of(documents)
    made = [each for each in simulate(documents) if not isinstance(each, Pod)]
    view.add((type(each).__name__, each) for each in made)
    return view


def _zone(objects: Objects) -> str:
    """The cluster domain, of the first Corefile that has one."""
    for placed in objects.kubernetes_blocks:
        shared = {
            f"{each.text.rstrip('.').lower()}."
            for line in placed.directive.lines
            if line.name.text == "multicluster"
            for each in line.args
        }
        with suppress(CorefileError):
            for zone in zones_from_args(placed.directive.args) or zones_of(placed.block):
                is_own = zone.to_text().lower() not in shared
                if is_own and not is_reverse(Name.from_labels((b"a", b"b", *zone.labels))):
                    return zone.to_text().removesuffix(".")
    return DOMAIN


def _hit_by_rules(objects: Objects, zone: str, names: Sequence[str]) -> dict[str, Cause]:
    """The names without their zone whose answers a rule of `fault` in a Corefile takes, for whoever asks."""
    found = dict[str, Cause]()
    blocks = (each.assembled.plugins for file in objects.corefiles for each in file.setup)
    for block, name in product(blocks, names):
        plugins = {type(each): each for each in block}
        if isinstance(fault := plugins.get(Fault), Fault) and Kubernetes in plugins:
            asked = NO_QUERY._replace(qname=Name.from_text(f"{name}.{zone}"), qtype=RRType.A)
            for rule, hits in fault.rules.foresee(asked, _RUNNING):
                if hits and rule.action.takes_answer:
                    found.setdefault(name, rule.cause(hits=True))
    return found


def _exposed(objects: Objects) -> list[str]:
    """The namespaces that the only kubernetes block serves; none if it serves all."""
    blocks = [*objects.kubernetes_blocks]
    lines = (each for placed in blocks for each in placed.directive.lines)
    named = (each.args for each in lines if each.name.text == "namespaces")
    return [each.text for args in named for each in args] if len(blocks) == 1 else []
