"""HS101, HS109, HS131 to HS134, HS136: Services, the pods that they select, and external names.

Path: judging.py -> here.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from itertools import chain
from typing import Final

from hsdns.causes.labels import MADE_LABELS
from hsdns.cluster.address import pack_address
from hsdns.cluster.controllers.defaults import Refused, check_domain
from hsdns.cluster.controllers.kinds import Workload
from hsdns.cluster.objects import Service, labels_text, likeness
from hsdns.rules.objects import Manifest, Objects, PodSet, check, is_headless, value_at
from hsdns.rules.rule import Remark

_MISSPELT: Final = 0.75  # difflib's ratio of two words
_SHORTEST: Final = 4  # letters of a word that can be told from another

Place = tuple[int, int]  # how near, and the negative position: of two, the greater one is meant


# The pods of one namespace by their labels, to find those that are nearest to a selector without looking at all.
#
# Rule 1: what is found is what a look at each pod would find, the first of those that are as near.
# Rule 2: pods with the same keys differ in their values only, and the values of a selector lead to those that have one.


class PodIndex:
    """Some pods, each with its position among all."""

    def __init__(self, pods: Iterable[tuple[int, PodSet]]) -> None:
        self._pods = dict(pods)
        self._shapes: defaultdict[frozenset[str], _Alike] = defaultdict(_Alike)
        self._names: defaultdict[str, list[int]] = defaultdict(list)
        self._pairs: defaultdict[tuple[str, str], list[int]] = defaultdict(list)
        self._spellings: defaultdict[tuple[object, ...], dict[str, None]] = defaultdict(dict)
        for position, each in self._pods.items():
            self._shapes[frozenset(each.labels)].add(position, each)
            self._names[each.manifest.name].append(position)
            for pair in each.labels.items():
                if pair not in self._pairs:
                    for signature in _signatures(pair[1]):
                        self._spellings[pair[0], *signature][pair[1]] = None
                self._pairs[pair].append(position)

    def nearest(self, selector: Mapping[str, str]) -> Place | None:
        """The first of the pods that are most like a selector; None if there are none."""
        found = [
            (keys + score[0], score[1])
            for shape, alike in self._shapes.items()
            for keys, score in [(len(shape & selector.keys()), alike.nearest(selector))]
        ]
        return max(found, default=None)

    def likely(self, name: str, selector: Mapping[str, str]) -> Iterator[tuple[int, PodSet]]:
        """The pods of a workload of that name, and those with a value of the selector misspelt or under another key."""
        found = set(self._names.get(name, ()))
        for key, value in selector.items():
            for shape, alike in self._shapes.items():
                if key not in shape:
                    found.update(alike.with_value(value))
            for other in self._like(key, value):
                found.update(self._pairs[key, other])
        for position in sorted(found):
            yield position, self._pods[position]

    def _like(self, key: str, value: str) -> set[str]:
        """The values of a key that are misspelt, or are what a misspelt one means."""
        return {
            other
            for signature in _signatures(value)
            for other in self._spellings.get((key, *signature), ())
            if is_misspelt(value, other)
        }


class _Alike:
    """Pods with the same keys, by the values of their labels."""

    def __init__(self) -> None:
        self._first: int | None = None
        self._values: defaultdict[str, list[int]] = defaultdict(list)

    def add(self, position: int, pods: PodSet) -> None:
        if self._first is None:
            self._first = position
        for value in set(pods.labels.values()):
            self._values[value].append(position)

    def with_value(self, value: str) -> Sequence[int]:
        return self._values.get(value, ())

    def nearest(self, selector: Mapping[str, str]) -> Place:
        """How many values of the selector the first of the nearest pods has, and its position."""
        assert self._first is not None, "it has a pod"
        counts = Counter(chain.from_iterable(map(self.with_value, selector.values())))
        places = ((count, -position) for position, count in counts.items())
        return max(places, default=(0, -self._first))


def is_misspelt(one: str, other: str) -> bool:
    """Whether two values differ in the letters of one word; `cache-1` and `cache-2` are two names."""
    words = _words(one), _words(other)
    pairs = [pair for pair in zip(*words, strict=False) if pair[0] != pair[1]]
    if len(words[0]) != len(words[1]) or len(pairs) != 1:
        return False
    ((left, right),) = pairs
    if not _is_word(left) or not _is_word(right):
        return False
    matcher = SequenceMatcher(None, left, right)
    return (
        matcher.real_quick_ratio() >= _MISSPELT
        and matcher.quick_ratio() >= _MISSPELT
        and matcher.ratio() >= _MISSPELT
    )


def _words(value: str) -> list[str]:
    return re.split(r"[-_.]", value)


def _is_word(text: str) -> bool:
    return text.isalpha() and len(text) >= _SHORTEST


def _signatures(value: str) -> Iterator[tuple[int, tuple[str, ...]]]:
    """What two values that differ in one word have in common, for each word that it could be."""
    words = _words(value)
    for at, word in enumerate(words):
        if _is_word(word):
            yield at, (*words[:at], "", *words[at + 1 :])


# HS101: a selector that matches no pod, although intended pods exist.
#
# Rule: pods outside the files may have the labels, for example those of operators.  So without the whole cluster
#       there is a finding only if a workload is clearly the intended one: one label is misspelt, or has another key,
#       or the workload has the Service's name and none of the keys.


# Labels that all workloads of an installation have; their values do not identify a workload.
_OF_INSTALLATION: Final = frozenset(
    "app.kubernetes.io/instance app.kubernetes.io/part-of app.kubernetes.io/managed-by release heritage".split()
)


@check("HS101", needs="services|pods|deployments|daemonsets|replicasets|statefulsets")
def selector(objects: Objects) -> Iterator[Remark]:
    """Selectors that match no pod."""
    indexes: dict[str, PodIndex] = {}  # by namespace
    for manifest, service in objects.services:
        wanted = service.spec.selector
        if not wanted or service.spec.type == "ExternalName" or objects.selected(manifest, wanted):
            continue
        near = []
        for namespace, positions in objects.near_pods(manifest):
            if namespace not in indexes:
                listed = ((each, objects.pod_sets[each]) for each in positions)
                indexes[namespace] = PodIndex(listed)
            near.append(indexes[namespace])
        meant = [
            (likeness(wanted, pods.labels), -position)
            for index in near
            for position, pods in index.likely(manifest.name, wanted)
            if _is_meant(wanted, pods, manifest)
        ]
        if not (meant or objects.is_whole):
            continue
        found = meant or [each for index in near if (each := index.nearest(wanted)) is not None]
        nearest = objects.pod_sets[-max(found)[1]] if found else None
        if nearest is None:
            sentence = f"{labels_text(wanted)} matches no pod: there is none in the namespace"
            yield manifest.remark("spec.selector", sentence)
            continue
        different = [key for key, value in wanted.items() if nearest.labels.get(key) != value]
        keys = [
            *different,
            *(key for key, value in nearest.labels.items() if value in wanted.values()),
        ]
        has = {key: nearest.labels[key] for key in dict.fromkeys(keys) if key in nearest.labels}
        shown = (
            labels_text(has)
            if has
            else labels_text(dict(sorted(nearest.labels.items())[:2])) or "no labels"
        )
        yield manifest.remark(
            "spec.selector",
            f"{labels_text(wanted)} matches no pod, so the Service has no endpoints; the nearest pods, those of "
            f"{nearest.manifest}, have {shown}; write the same labels in both",
            at=f"spec.selector[{different[0]}]" if different else "",
        )


def _is_meant(wanted: Mapping[str, str], pods: PodSet, manifest: Manifest) -> bool:
    labels = pods.labels
    differing = {
        key: value
        for key, value in wanted.items()
        if labels.get(key) != value and key not in MADE_LABELS
    }
    if not any(key in labels for key in wanted) and pods.manifest.name == manifest.name:
        return True
    if len(differing) != 1:
        return False
    ((key, value),) = differing.items()
    found = labels.get(key)
    if found is None:
        others = {other for other in labels if other not in wanted}
        if key not in _OF_INSTALLATION:
            others -= _OF_INSTALLATION
        return value not in ("true", "false") and any(labels[other] == value for other in others)
    return is_misspelt(value, found)


# HS109: several headless Services that select the same pods, but have different answers.
#
# Rule: the usual pair of a headless Service and one with a cluster IP is not a finding, and neither are Services that
#       differ only in their names: those are aliases.
# Source: CoreDNS 1.14.7 plugin/kubernetes/reverse.go: an address has a PTR record for each Service whose ready endpoint
#         it is; k8s.io/endpointslice: an endpoint has its pod's hostname only in the Service that is the pod's
#         subdomain.


@check("HS109", needs="services|pods|statefulsets")
def shared_pods(objects: Objects) -> Iterator[Remark]:
    """Headless Services that differ from another one with the same pods, each once."""
    told: set[tuple[int, int]] = set()
    for pods in objects.templates:
        chosen = [each for each in objects.services_of(pods) if is_headless(each[1])]
        own = _subdomain(pods)
        # The others are compared with the one that gives the pods their names.
        chosen.sort(key=lambda each: (each[0].name != own, each[0].name))
        for manifest, service in chosen[1:]:
            first, other = chosen[0]
            if manifest.name == first.name:
                continue  # the same Service, from another overlay of the folder
            differing = list(_differing(service, other, first.name))
            if differing and (id(first), id(manifest)) not in told:
                told.add((id(first), id(manifest)))
                sentence = _sentence(pods, manifest, first, differing, own=own)
                yield manifest.remark("spec.selector", sentence)


def _sentence(
    pods: PodSet, manifest: Manifest, first: Manifest, differing: list[str], *, own: str
) -> str:
    if own == first.name:
        names = f"only below {own} have pods names of their own, and SRV records of {manifest.name}"
    else:
        names = "below neither have pods names of their own, and SRV records"
    return (
        f"{first} chooses the same pods, those of {pods.manifest}, but {' and '.join(differing)}: an address has a PTR "
        f"record for each Service in which it is ready, in no order; {names} lead to names made of addresses; "
        "let programs that look for pods by PTR or SRV use one Service"
    )


def _subdomain(pods: PodSet) -> str:
    """The name of the Service below which the pods have names, if they have any."""
    owner = pods.manifest.object
    if isinstance(owner, Workload) and pods.manifest.kind == "StatefulSet":
        return owner.spec.service_name or ""
    return (pods.spec.hostname and pods.spec.subdomain) or ""


def _differing(service: Service, other: Service, name: str) -> Iterator[str]:
    published = [
        "true" if each.spec.publish_not_ready_addresses else "false" for each in (service, other)
    ]
    if published[0] != published[1]:
        yield f"publishNotReadyAddresses is {published[0]} here and {published[1]} in {name}"
    ports = [_ports(each) for each in (service, other)]
    if ports[0] != ports[1]:
        shown = [", ".join(sorted(each)) or "none" for each in ports]
        yield f"the ports are {shown[0]} here and {shown[1]} in {name}"


def _ports(service: Service) -> set[str]:
    """The ports as in SRV records."""
    return {
        f"{each.name or 'unnamed'} {each.target_port or each.port}/{each.protocol or 'TCP'}"
        for each in service.spec.ports or ()
    }


# HS131 to HS134: targets of ExternalName Services.
#
# Rule: the target is the complete name in a CNAME record; no resolver adds a search domain to it.


FIELD: Final = "spec.externalName"
DOMAIN: Final = "cluster.local"  # kubeadm's default, as in most clusters
_AROUND: Final = re.compile(r"(?:[A-Za-z][A-Za-z0-9+.-]*://)?([^/:?#\s]+)(?::[0-9]+)?(?:[/?#].*)?")


def is_about_target(fault: Refused) -> bool:
    """Whether a refusal is about the target of an ExternalName Service."""
    return fault.field == FIELD


def _targets(objects: Objects) -> Iterator[tuple[Manifest, str]]:
    for manifest, service in objects.services:
        if service.spec.type == "ExternalName" and service.spec.external_name:
            yield manifest, service.spec.external_name


@check("HS131", needs="services", each=_targets)
def address(objects: Objects, manifest: Manifest, target: str) -> Iterator[Remark]:
    """Targets that are addresses."""
    if pack_address(target) is not None:
        yield manifest.remark(
            FIELD,
            f'"{target}" is an IP address, and a CNAME record needs a host name; use a Service without selector, '
            "and an EndpointSlice with the address",
        )


@check("HS132", needs="files", each="manifests")
def no_host(objects: Objects, manifest: Manifest) -> Iterator[Remark]:
    """Targets that are not host names, which the API server refuses."""
    fault = manifest.refused
    if fault is None or not is_about_target(fault):
        return
    written = value_at(manifest.content, FIELD)
    host = _host(written) if isinstance(written, str) else ""
    edit = manifest.replaced(FIELD, host) if host else None
    yield manifest.remark(FIELD, str(fault).removeprefix(f"{FIELD}: "), edit=edit)


@check("HS133", needs="services")
def loop(objects: Objects) -> Iterator[Remark]:
    """Targets that lead back to the Service."""
    targets = {
        (manifest.name, manifest.namespace or "default"): _service_of(target)
        for manifest, target in _targets(objects)
    }
    for manifest, _ in _targets(objects):
        start = (manifest.name, manifest.namespace or "default")
        seen = [start]
        while (following := targets.get(seen[-1])) is not None and following not in seen:
            seen.append(following)
        if following == start:
            ways = [*seen[1:], start]
            names = " to ".join(f"{name}.{namespace}.svc.{DOMAIN}" for name, namespace in ways)
            yield manifest.remark(
                FIELD,
                f"the name leads to {names}, which is itself, and so it never resolves; "
                "write the name of what it stands for",
            )


@check("HS134", needs="services")
def relative(objects: Objects) -> Iterator[Remark]:
    """Targets that would need a search domain."""
    namespaces = {each.namespace for each in objects.manifests} | {
        each.name for each in objects.written("Namespace")
    }
    for manifest, target in _targets(objects):
        labels = target.rstrip(".").lower().split(".")
        if target.endswith(".") or pack_address(target) is not None:
            continue
        reason = (
            "the target is a whole name, to which no search domain is added, so it does not resolve"
        )
        if labels[-1] == "svc" and len(labels) >= 3:
            whole = f"{'.'.join(labels)}.{DOMAIN}"
        elif len(labels) == 2 and labels[1] in namespaces and objects.service_names.get(labels[0]):
            whole = f"{'.'.join(labels)}.svc.{DOMAIN}"
        elif len(labels) == 1 and objects.named(labels[0], manifest):
            whole = f"{labels[0]}.{manifest.namespace or 'NAMESPACE'}.svc.{DOMAIN}"
        else:
            continue
        yield manifest.remark(FIELD, f'{reason}; write "{whole}", with the domain of the cluster')


def _service_of(target: str) -> tuple[str, str] | None:
    labels = target.rstrip(".").lower().split(".")
    if len(labels) < 4 or labels[2] != "svc" or ".".join(labels[3:]) != DOMAIN:
        return None
    return labels[0], labels[1]


def _host(written: str) -> str:
    found = _AROUND.fullmatch(written.strip())
    if found is None:
        return ""
    host = found[1].lower()
    try:
        check_domain(FIELD, host)
    except Refused:
        return ""
    return "" if pack_address(host) is not None else host


# HS136: a namespace with the name of a top-level domain, so that the search list captures names of the internet.
#
# Rule: a lookup of `web.com` in the cluster first queries `web.com.svc.cluster.local`, which is the Service `web` in
#       the namespace `com`.


# The first set has most names; the second are top-level domains that are words, like namespaces.
COMMON: Final = frozenset("com net org edu gov int mil io co".split())
WORDS: Final = frozenset(
    "ai app auto blog build business cloud codes company data design dev digital email engineering finance games "
    "global group health host hosting info it link live mail market media me monitor network news nexus one online "
    "page play pro prod run sale services shop shopping site software solutions space store studio support systems "
    "team tech tools tv video web wiki work world xyz zone".split()
) - {"data", "mail", "monitor", "prod", "web"}  # words that are not top-level domains yet


@check("HS136", needs="services")
def captured(objects: Objects) -> Iterator[Remark]:
    """Namespaces named like a top-level domain, with a Service in them."""
    told: set[str] = set()
    for manifest, _ in objects.services:
        namespace = manifest.namespace
        if namespace in told or namespace not in COMMON | WORDS:
            continue
        told.add(namespace)
        asked = f"{manifest.name}.{namespace}"
        yield manifest.remark(
            "metadata.namespace",
            f'"{namespace}" is also a top-level domain: a pod that asks for {asked} gets this Service, and not the '
            f'host of that name on the internet; name the namespace otherwise, or ask for "{asked}."',
            level="warning" if namespace in COMMON else "note",
        )
