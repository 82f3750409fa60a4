"""The diagnosis of a cluster: what fails, what has passed, and what could not be checked and why.

Path: doctor/cli.py (the objects of a dump) -> here -> judging.py.
Rule 1: a dump with Services, Pods and workloads is the whole cluster: other objects do not exist.
Rule 2: a rule about objects that could not be read has not passed, even if it found something.
Rule 3: the most urgent findings come first, then by object; where it stands in a dump is chance.
Rule 4: what will fail according to files fails now in a cluster, if it only depends on objects that are all known.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import Final, NamedTuple

from hsdns.cluster.controllers.kinds import NetworkPolicy, PodManifest, Workload
from hsdns.cluster.controllers.network_policy import Peer, is_for
from hsdns.cluster.objects import SERVICE_NAME_LABEL
from hsdns.corefile.tree import did_you_mean
from hsdns.rules.checks.dns import DNS_SERVER, Asked, asked, dns_pods
from hsdns.rules.judging import WITHOUT_EFFECT, WITHOUT_REASON, Files, judge
from hsdns.rules.mesh import KIND as MESH
from hsdns.rules.mesh import MeshFinding, as_findings, has_mesh
from hsdns.rules.objects import CHECKS, EACH, NEEDS, OF_SERVERS, Manifest, Objects
from hsdns.rules.rule import LEVELS, Finding, previews
from hsdns.rules.silence import Silence, SilenceFile, SilencePattern

# Rules about what a dump of a cluster never has: the API server refuses it, it is text around the objects, or it is not
# read.
OF_FILES: Final = frozenset({WITHOUT_EFFECT, WITHOUT_REASON, *NEEDS["files"]})
WHOLE: Final = frozenset(
    "services|pods|pods that run|statefulsets|deployments|daemonsets|replicasets".split("|")
)
MAIN: Final = ("services", "endpointslices", "pods", "pods that run")

# Pods without names, or without DNS: rules whose warnings are errors in a whole cluster.
_NOW: Final = frozenset({"HS102", "HS106", "HS161", "HS163"})


class Diagnosis(NamedTuple):
    """`passed` are codes; `unchecked` has codes by what could not be read, `reasons` why not.

    `idle` are the codes of rules that had no object to check, `asked` has the DNS servers that were queried, `mesh` the
    findings of istioctl.
    """

    findings: list[Finding]
    passed: list[str]
    idle: list[str]
    unchecked: dict[str, tuple[str, ...]]
    reasons: Mapping[str, str]
    objects: int
    problems: list[str]
    silenced: Sequence[Finding] = ()
    asked: Sequence[Asked] = ()
    mesh: Sequence[MeshFinding] = ()


class Subject(NamedTuple):
    """What is diagnosed: objects, their silences, what could not be read, by plural and as sentences.

    `places` are the objects of the target, None without one.  `is_cluster` if the objects are those of a cluster, not
    manifests that make one.
    """

    objects: Objects
    silences: Sequence[Silence]
    reasons: Mapping[str, str]
    problems: list[str]
    places: set[str] | None
    is_cluster: bool


def subject_of(
    read: Files, reasons: Mapping[str, str], target: str = "", *, is_cluster: bool = False
) -> Subject:
    """What to diagnose; `target` is NAMESPACE or NAMESPACE/NAME.  Raise ValueError if the dump does not have it."""
    old = read.objects
    objects = Objects(old.manifests, old.corefiles, is_whole=not WHOLE & set(reasons))
    try:
        places = _places(objects, target) if target else None
    except ValueError as error:
        raise ValueError(f"{error}{_unread(reasons)}") from None
    is_cluster = is_cluster or any("uid" in each.metadata for each in objects.manifests)
    problems = [*read.unread, *read.left_out]
    return Subject(objects, read.silences, reasons, problems, places, is_cluster)


def diagnose(
    subject: Subject, patterns: Sequence[SilencePattern] = (), *, preview: bool = False
) -> Diagnosis:
    """Check the rules; `patterns` are the entries of a file of silences; those with a path are about files.

    With `preview`, new rules are checked too.
    """
    objects, places = subject.objects, subject.places
    left_out = frozenset() if preview else previews()
    reasons = {key: why for key, why in subject.reasons.items() if not _is_of(key, left_out)}
    unchecked = {
        plural: tuple(code for code in sorted(NEEDS.get(plural, ())) if code not in left_out)
        for plural in reasons
    }
    missing = {code for codes in unchecked.values() for code in codes}
    own = [each for each in patterns if not each.path]
    filed = SilenceFile(own, OF_FILES | missing, is_everything=places is None)
    found, silenced = judge(objects, subject.silences, filed, preview=preview)
    if places is not None:
        shown = partial(_is_shown, places)
        silenced = [each for each in silenced if shown(each)]
        found = [each for each in found if shown(each) or _is_of_file(each, patterns)]
    # The position in the dump is useless, that in the file of silences is not.
    found = [
        each._replace(remark=each.remark._replace(place=str(each.remark.position)))
        if _is_of_file(each, patterns)
        else each
        for each in found
    ]
    if objects.is_whole:
        found = [each._replace(level="error") if each.rule.code in _NOW else each for each in found]
    found.sort(key=_urgency)
    codes = {each.rule.code for each in (*found, *silenced)}
    untold = codes | missing | OF_FILES | left_out
    quiet = [code for code in sorted(CHECKS) if code not in untold]
    lacking = without_objects(objects)
    idle = [code for code in quiet if code in lacking or not [*islice(EACH[code](objects), 1)]]
    passed = [code for code in quiet if code not in idle]
    servers = asked(objects)
    said, mesh = objects.written(MESH), list[MeshFinding]()
    for each in said:
        mesh += as_findings(each.content.get("messages") or ())
    if not said and "istioctl" not in reasons and has_mesh(objects):
        reasons["istioctl"] = "it is not run with --source; run istioctl analyze --all-namespaces"
    count = len(objects.manifests) - len(servers) - len(said)
    return Diagnosis(
        found, passed, idle, unchecked, reasons, count, subject.problems, silenced, servers, mesh
    )


def _urgency(finding: Finding) -> tuple[object, ...]:
    remark = finding.remark
    return LEVELS.index(finding.level), remark.place, finding.rule.code, finding.message


def _is_of(plural: str, codes: Collection[str]) -> bool:
    """Whether a kind is needed for these rules only."""
    needed = set(NEEDS.get(plural, ()))
    return bool(needed) and needed <= set(codes)


def _is_shown(places: Collection[str], finding: Finding) -> bool:
    return finding.remark.place in places or finding.rule.code in OF_SERVERS


def without_objects(objects: Objects) -> frozenset[str]:
    """The rules that find nothing because there are no objects of a kind."""
    kinds = {
        "services": objects.services,
        "endpointslices": objects.of("EndpointSlice"),
        "networkpolicies": objects.written("NetworkPolicy"),
        "clusterroles": objects.written("ClusterRole"),
        "answers": objects.written(DNS_SERVER),
        "configmaps": objects.corefiles,
        "pods of the cluster's DNS": dns_pods(objects),
    }
    return frozenset(code for plural, found in kinds.items() if not found for code in NEEDS[plural])


def _is_of_file(finding: Finding, patterns: Sequence[SilencePattern]) -> bool:
    return any(each.at == finding.remark.position for each in patterns)


def _unread(reasons: Mapping[str, str]) -> str:
    """The end of a sentence about a missing object: what could not be read, and may contain it."""
    found = [f"{each}: {reasons[each]}" for each in ("services", "pods") if each in reasons]
    return f"; not all could be read ({', '.join(found)})" if found else ""


def _places(objects: Objects, target: str) -> set[str]:
    """The objects of a target, as findings name them."""
    namespace, _, name = target.partition("/")
    near = [each for each in objects.manifests if each.namespace == namespace]
    if not near:
        hint = did_you_mean(namespace, {each.namespace for each in objects.manifests} - {""})
        raise ValueError(f'there is no object in a namespace "{namespace}"{hint}')
    if not name:
        return {str(each) for each in near}
    named = [each for each in near if each.name == name and each.kind in ("Service", "Pod")]
    if not named:
        known = {each.name for each in near if each.kind in ("Service", "Pod")}
        raise ValueError(
            f'there is no Service and no Pod "{name}" in namespace {namespace}{did_you_mean(name, known)}'
        )
    found = {str(each) for each in named}
    for pods in objects.pod_sets:
        services = [manifest for manifest, _ in objects.services_of(pods)]
        is_own = pods.manifest in named
        if is_own or any(each in named for each in services):
            found |= {str(pods.manifest), *(_owners(pods.manifest.object, namespace))}
        if is_own:
            found |= {str(each) for each in services}
    owners = {each.name for each in near if each.kind == "Service" and str(each) in found}
    for each in objects.of("EndpointSlice"):
        if each in near and each.labels.get(SERVICE_NAME_LABEL) in owners:
            found.add(str(each))
    return found | set(_policies(objects, near, found))


def _policies(objects: Objects, near: list[Manifest], found: set[str]) -> Iterator[str]:
    """The NetworkPolicies that select pods in `found`."""
    peers = [
        Peer(each.manifest.namespace, each.labels, {})
        for each in objects.pod_sets
        if each.manifest in near and str(each.manifest) in found
    ]
    for each in near:
        policy = each.object
        if isinstance(policy, NetworkPolicy) and any(is_for(policy, peer) for peer in peers):
            yield str(each)


def _owners(found: object, namespace: str) -> list[str]:
    if not isinstance(found, PodManifest | Workload):
        return []
    return [
        f"{each.kind} {namespace}/{each.name}" for each in found.metadata.owner_references or ()
    ]
