"""HS101, HS109, HS131 to HS134, HS136: Services, the pods that they select, and external names.

Path: judging.py -> here.
"""

from __future__ import annotations

import os.path
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import permutations
from typing import Final

from hsdns.causes.alias import cause_of_alias
from hsdns.causes.labels import (
    MADE_LABELS,
    different,
    in_other_namespace,
    is_set_later,
    is_slip,
    kinship,
    mismatch,
    nearest,
    other_key,
    telling_label,
    unlike,
)
from hsdns.causes.ports import ports_of
from hsdns.cluster.address import pack_address
from hsdns.cluster.controllers.defaults import Refused, check_domain
from hsdns.cluster.controllers.kinds import Workload
from hsdns.cluster.objects import Service, labels_text
from hsdns.rules.objects import (
    Manifest,
    Objects,
    PodSet,
    check,
    is_near,
    value_at,
)
from hsdns.rules.rule import Remark

# HS101: a selector that matches no pod.
#
# Rule 1: it is an error if it is known which pods are meant (causes/labels.py), in the namespace or in another one, or
#         if the cluster has no others.
# Rule 2: in files that have workloads for the namespace it is a warning otherwise, unless the pods come from elsewhere:
#         an operator makes them of a custom resource whose name the Service or its selector has, or gives them labels
#         of a domain of its own; or they belong to a chart of which the files have no workload; or an object of the
#         folder was not read.
# Rule 3: a label that changes while the pods run, such as that of a primary, is in no template.


@check("HS101", needs="services|pods|deployments|daemonsets|replicasets|statefulsets")
def selector(objects: Objects) -> Iterator[Remark]:
    """Selectors that match no pod."""
    for manifest, service in objects.services:
        wanted = service.spec.selector
        if not wanted or service.spec.type == "ExternalName" or objects.selected(manifest, wanted):
            continue
        near = objects.near_pods(manifest)
        pods = nearest(manifest.name, wanted, near, service.metadata.labels or {})
        elsewhere = [] if pods is not None else objects.anywhere(wanted)
        if not objects.is_whole and not _is_clear(objects, manifest, wanted, pods, elsewhere):
            continue
        if pods is not None:
            yield _mismatch(objects, manifest, wanted, pods)
        elif elsewhere:
            other = elsewhere[0].manifest
            sentence = in_other_namespace(
                wanted, manifest.namespace, _short(other), other.namespace
            )
            yield manifest.remark(
                "spec.selector",
                f"{sentence}; write namespace: {other.namespace}",
                at="metadata.namespace",
            )
        else:
            space = f"namespace {manifest.namespace}" if manifest.namespace else "the namespace"
            sentence = unlike(wanted, space, has_pods=bool(near))
            yield manifest.remark(
                "spec.selector",
                f"{sentence}{'; write the labels of its pods' if near else ''}",
                level="" if objects.is_whole or not near else "warning",
            )


def _is_clear(
    objects: Objects,
    manifest: Manifest,
    wanted: Mapping[str, str],
    pods: PodSet | None,
    elsewhere: Sequence[PodSet],
) -> bool:
    """Whether files show that a selector matches no pod, though they may not have all pods."""
    if pods is not None:
        is_later = is_set_later(wanted, pods.labels)
        return not is_later and not objects.is_patched(manifest, pods.manifest)
    beside = _beside(objects.near_pods(manifest), manifest)
    if objects.is_patched(manifest, *(each.manifest for each in beside)):
        return False
    if not beside or os.path.dirname(manifest.file) in objects.partial:
        return bool(elsewhere)
    return bool(elsewhere) or not _is_made_later(objects, manifest, wanted)


def _mismatch(
    objects: Objects, manifest: Manifest, wanted: Mapping[str, str], pods: PodSet
) -> Remark:
    (key, *others) = different(wanted, pods.labels)
    at, labels, edit = f"spec.selector[{key}]", pods.labels, None
    key_meant = key if key in labels else other_key(key, wanted[key], wanted, labels)
    value = labels.get(key_meant, "")
    corrected = {each: one for each, one in wanted.items() if each != key} | {key_meant: value}
    # Only a spelling has one right answer, and only if no other pods have the labels then.
    is_spelling = is_slip(wanted[key], value) if key == key_meant else is_slip(key, key_meant)
    if is_spelling and not others and len(objects.selected(manifest, corrected)) == 1:
        is_key = key != key_meant
        edit = manifest.replaced(at, key_meant if is_key else value, is_key=is_key)
    place = _short(pods.manifest)
    sentence = f"{mismatch(wanted, place, labels)}; write the same in both"
    return manifest.remark("spec.selector", sentence, at=at, edit=edit)


def _short(manifest: Manifest) -> str:
    """A workload or a pod without its namespace."""
    return f"{'pod' if manifest.kind == 'Pod' else manifest.kind} {manifest.name}"


def _is_made_later(objects: Objects, manifest: Manifest, wanted: Mapping[str, str]) -> bool:
    """Whether what makes the pods may not be in the files."""
    names = {manifest.name, *wanted.values()}
    if any(each.name in names and is_near(each, manifest) for each in objects.custom):
        return True
    chart = chart_of(manifest)
    if chart and not any(
        chart in (chart_of(each), chart_of(each.manifest)) for each in objects.templates
    ):
        return True
    known = {_domain(key) for pods in objects.templates for key in pods.labels}
    return any(_domain(key) not in known | _USUAL for key in wanted)


def _beside(pods: Iterable[PodSet], manifest: Manifest) -> list[PodSet]:
    """The pods of the namespace that is written, or of the folder if none is."""
    folder = os.path.dirname(manifest.file)
    return [
        each
        for each in pods
        if each.manifest.namespace == manifest.namespace
        and (manifest.namespace or os.path.dirname(each.manifest.file) == folder)
    ]


def chart_of(found: Manifest | PodSet) -> object:
    """The chart that an object or its pods are of, as Helm notes it in a label."""
    return found.labels.get("helm.sh/chart") or found.labels.get("chart")


_USUAL: Final = frozenset(("", "app.kubernetes.io", "helm.sh"))


def _domain(key: str) -> str:
    return key.rpartition("/")[0]


# HS110: a selector that also matches the pods of another workload.
#
# Rule 1: a Service of the name of one of several workloads means that one.  The others are meant too if each Service of
#         theirs selects that one, or if their names begin with its name, as those of a canary do; but not if they lack
#         the port.
# Rule 2: a label of the Service itself that tells its workload, such as the component, says what it means.


@check("HS110", needs="files", each="services")
def too_wide(objects: Objects, manifest: Manifest, service: Service) -> Iterator[Remark]:
    """Services that lead to the pods of several workloads, and mean one of them."""
    wanted = service.spec.selector
    pods = objects.selected(manifest, wanted) if wanted else []
    pods = [each for each in _beside(pods, manifest) if isinstance(each.manifest.object, Workload)]
    if "uid" in manifest.metadata or objects.is_patched(
        manifest, *(each.manifest for each in pods)
    ):
        return  # in a cluster, what a workload was before an update is there too
    for own, other in permutations(pods, 2):
        key = telling_label(service.metadata.labels or {}, own.labels, other.labels)
        is_of_name = kinship(manifest.name, own.name) and not kinship(manifest.name, other.name)
        lacks = lacking_port(service, own, other) if key or is_of_name else ""
        if not key and not (is_of_name and (lacks or _is_apart(objects, own, other))):
            continue
        key = key or next(
            (key for key, value in own.labels.items() if other.labels.get(key) != value), ""
        )
        why = f", which do not listen on port {lacks}" if lacks else ""
        what = f"{key}={own.labels[key]}" if key else "a label that only those have"
        yield manifest.remark(
            "spec.selector",
            f"{labels_text(wanted or {})} matches the pods of {own.manifest} and also those of {other.manifest}{why}; "
            f"add {what}",
        )
        break


def _is_apart(objects: Objects, own: PodSet, other: PodSet) -> bool:
    """Whether a workload has a Service that another one has not, and is none of its canaries."""
    if own.labels == other.labels or other.name.startswith(f"{own.name}-"):
        return False
    return any(not own.matches(each.spec.selector or {}) for _, each in objects.services_of(other))


def lacking_port(service: Service, own: PodSet, other: PodSet) -> str:
    """A port that a Service leads to in its own pods, if others have ports, and none of the Service."""
    targets = [each.target_port or each.port for each in service.spec.ports or ()]
    has = {name for each in ports_of(own.spec) for name in (each.name, each.container_port)}
    others = {name for each in ports_of(other.spec) for name in (each.name, each.container_port)}
    reached = [each for each in targets if each in has]
    return str(reached[0]) if reached and others and not others.intersection(targets) else ""


# HS109: several headless Services that select the same pods, but have different answers.
#
# Rule: labels that a controller sets, such as the name of the pod, select other pods in each Service.  The usual pair
#       of a headless Service and one with a cluster IP is not a finding, and neither are Services that
#       differ only in their names: those are aliases.
# Source: CoreDNS 1.14.7 plugin/kubernetes/reverse.go: an address has a PTR record for each Service whose ready endpoint
#         it is; k8s.io/endpointslice: an endpoint has its pod's hostname only in the Service that is the pod's
#         subdomain.


@check("HS109", needs="services|pods|statefulsets")
def shared_pods(objects: Objects) -> Iterator[Remark]:
    """Headless Services that differ from another one with the same pods, each once."""
    told: set[tuple[int, int]] = set()
    for pods in objects.templates:
        chosen = [
            each
            for each in objects.services_of(pods)
            if each[1].is_headless and MADE_LABELS.isdisjoint(each[1].spec.selector or {})
        ]
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
        names = f"only below {own} do pods have DNS names, and SRV records of {manifest.name}"
    else:
        names = "below neither do pods have DNS names, and SRV records"
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
    ports = [_as_srv(each) for each in (service, other)]
    if ports[0] != ports[1]:
        shown = [", ".join(sorted(each)) or "none" for each in ports]
        yield f"the ports are {shown[0]} here and {shown[1]} in {name}"


def _as_srv(service: Service) -> set[str]:
    """The ports as in SRV records."""
    return {
        f"{each.name or 'unnamed'} {each.target_port or each.port}/{each.protocol or 'TCP'}"
        for each in service.spec.ports or ()
    }


# HS131 to HS134: targets of ExternalName Services; causes/alias.py says why they lead nowhere.


FIELD: Final = "spec.externalName"
_AROUND: Final = re.compile(r"(?:[A-Za-z][A-Za-z0-9+.-]*://)?([^/:?#\s]+)(?::[0-9]+)?(?:[/?#].*)?")


def is_about_target(fault: Refused) -> bool:
    """Whether a refusal is about the target of an ExternalName Service."""
    return fault.field == FIELD


def _aliases(objects: Objects) -> Iterator[tuple[Manifest, Service]]:
    for manifest, service in objects.services:
        if service.spec.type == "ExternalName" and service.spec.external_name:
            yield manifest, service


@check("HS131", needs="services", each=_aliases)
def address(objects: Objects, manifest: Manifest, service: Service) -> Iterator[Remark]:
    """Targets that are addresses."""
    yield from _of_target(objects, manifest, service, "HS131")


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


@check("HS133", needs="services", each=_aliases)
def loop(objects: Objects, manifest: Manifest, service: Service) -> Iterator[Remark]:
    """Targets that lead back to the Service."""
    yield from _of_target(objects, manifest, service, "HS133")


@check("HS134", needs="services", each=_aliases)
def relative(objects: Objects, manifest: Manifest, service: Service) -> Iterator[Remark]:
    """Targets that would need a search domain."""
    yield from _of_target(objects, manifest, service, "HS134")


def _of_target(
    objects: Objects, manifest: Manifest, service: Service, code: str
) -> Iterator[Remark]:
    def find(key: tuple[str, str]) -> Service | None:
        spaces = (key[0], "" if key[0] == "default" else key[0])
        named = objects.service_names.get(key[1], ())
        return next((each for other, each in named if other.namespace in spaces), None)

    cause = cause_of_alias(service, find)
    if cause is not None and cause.code == code:
        yield manifest.remark(FIELD, f"{cause.sentence}; {cause.todo}")


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


# The first set has most names; the second are those that programs ask for too.  Words that a namespace is more likely
# called for what they mean, such as `shop`, are in neither.
COMMON: Final = frozenset("com net org edu gov int mil io co".split())
WORDS: Final = frozenset("ai app cloud dev info it me online site tech tv xyz".split())


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
            f'"{namespace}" is also a top-level domain: a pod that looks up {asked} gets this Service, and not the '
            f'host of that name on the internet; rename the namespace, or look up "{asked}."',
            level="warning" if namespace in COMMON else "note",
        )
