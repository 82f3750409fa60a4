"""Drift: the differences between the Services and StatefulSets of two clusters that affect DNS names.

Path: doctor/cli.py, lint/cli.py (two sets of objects) -> here -> lint/drift.py.
Rule 1: only fields that determine names, their records and their addresses are compared; cluster IPs and node ports
        always differ between clusters.
Rule 2: an unset field has the API server's default; if the default depends on the cluster, as for ipFamilies, the field
        is compared only if both sides set it.
Rule 3: duplicate objects on one side, and objects that the API server refuses, are reported as not compared.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple

from hsdns.cluster.controllers.kinds import Workload
from hsdns.cluster.objects import Service, ServicePort, labels_text
from hsdns.corefile.tree import Position, did_you_mean
from hsdns.rules.objects import Manifest, Objects, value_at

PRESENT: Final = "present"
SERVICE: Final = "Service"
STATEFUL_SET: Final = "StatefulSet"
KINDS: Final = (SERVICE, STATEFUL_SET)
SIDES: Final = ("here", "there")

_Pair = tuple[Manifest | None, Manifest | None]


class Difference(NamedTuple):
    """A field of an object, or the object itself if `field` is empty; None is a missing value.

    `here_at` and `there_at` are positions in the files, None on a side without the object.
    """

    place: str
    field: str
    here: str | None
    there: str | None
    here_at: Position | None
    there_at: Position | None


class Drift(NamedTuple):
    """The differences, how many objects of each kind were compared, and sentences about those that were not."""

    differences: list[Difference]
    counts: dict[str, int]
    problems: list[str]


def compare(here: Objects, there: Objects, target: str = "", kinds: Sequence[str] = KINDS) -> Drift:
    """Compare two sets; `target` is NAMESPACE or NAMESPACE/NAME.  Raise ValueError if neither set has it."""
    differences: list[Difference] = []
    counts: dict[str, int] = {}
    problems: list[str] = []
    for kind in kinds:
        named = _by_name(here.written(kind), target), _by_name(there.written(kind), target)
        pairs = list(_pairs(*named, problems))
        counts[kind] = len(pairs)
        for pair in pairs:
            differences += _differences(kind, pair)
    if target and not any(counts.values()) and not problems:
        raise ValueError(_without(target, here, there))
    return Drift(sorted(differences, key=_order), counts, problems)


def _order(found: Difference) -> tuple[object, ...]:
    at = found.here_at or found.there_at
    return (found.here_at is None, *(at or ()), found.place, found.field)


def _by_name(
    written: Sequence[Manifest], target: str
) -> defaultdict[tuple[str, str], list[Manifest]]:
    found: defaultdict[tuple[str, str], list[Manifest]] = defaultdict(list)
    for each in written:
        # Other API groups also have a kind Service.
        if each.group == ("" if each.kind == SERVICE else "apps") and _is_in(each, target):
            found[each.namespace, each.name].append(each)
    return found


def _is_in(manifest: Manifest, target: str) -> bool:
    namespace, _, name = target.partition("/")
    if not target:
        return True
    if manifest.namespace not in (namespace, ""):
        return False
    owned = manifest.object
    service = owned.spec.service_name if isinstance(owned, Workload) else None
    return name in ("", manifest.name, service)


def _without(target: str, here: Objects, there: Objects) -> str:
    namespace, _, name = target.partition("/")
    known = [each for side in (here, there) for kind in KINDS for each in side.written(kind)]
    hint = did_you_mean(namespace, {each.namespace for each in known} - {""})
    if name:
        near = {each.name for each in known if each.namespace == namespace}
        hint = did_you_mean(name, near) if near else hint
    what = f'"{name}" in namespace {namespace}' if name else f'in a namespace "{namespace}"'
    return f"there is no Service and no StatefulSet {what} on either side{hint}"


def _pairs(
    here: dict[tuple[str, str], list[Manifest]],
    there: dict[tuple[str, str], list[Manifest]],
    problems: list[str],
) -> Iterator[_Pair]:
    """The objects in pairs by name; one without a namespace matches the only one with the same name."""
    partners = {key: _partner(key, there) for key in here}
    taken = [each for each in partners.values() if each is not None]
    for key, other in list(partners.items()):
        if other is not None and key != other and taken.count(other) > 1:
            partners[key] = None
    listed = [
        *(
            (here[key], there[other] if other is not None else [])
            for key, other in partners.items()
        ),
        *(([], there[key]) for key in there if key not in partners.values()),
    ]
    for pair in listed:
        sentences = [
            sentence
            for side, found in zip(SIDES, pair, strict=True)
            for sentence in _not_compared(side, found)
        ]
        problems += sentences
        if not sentences:
            yield (pair[0][0] if pair[0] else None, pair[1][0] if pair[1] else None)


def _partner(
    key: tuple[str, str], there: dict[tuple[str, str], list[Manifest]]
) -> tuple[str, str] | None:
    if key in there:
        return key
    namespace, name = key
    near = [each for each in there if each[1] == name and not (namespace and each[0])]
    return near[0] if len(near) == 1 else None


def _not_compared(side: str, found: Sequence[Manifest]) -> Iterator[str]:
    if len(found) > 1:
        places = " and ".join("{}:{}".format(*each.at("")[:2]) for each in found[:2])
        yield f"{found[0]} is not compared: {side} it is at {places}; compare files that have it once"
    elif found and found[0].object is None:
        file, line, _ = found[0].at("")
        yield (
            f"{found[0]} is not compared: the API server would refuse that of {file}:{line}; "
            f"hsdns lint {file} says why"
        )


def _differences(kind: str, pair: _Pair) -> Iterator[Difference]:
    here, there = pair
    if here is None or there is None:
        place = str(here or there)
        ats = [each.at("") if each is not None else None for each in pair]
        values = [PRESENT if each is not None else None for each in pair]
        yield Difference(place, "", values[0], values[1], ats[0], ats[1])
        return
    place = max(str(here), str(there), key=len)  # the one with a namespace, if any
    rows = _of_services(here, there) if kind == SERVICE else _of_stateful_sets(here, there)
    for field, (one, other), (here_at, there_at) in rows:
        if one != other:
            yield Difference(place, field, one, other, here.at(here_at), there.at(there_at))


# A field, its value on each side, and its position on each side.
_Row = tuple[str, tuple[str | None, str | None], tuple[str, str]]


def _row(field: str, here: str | None, there: str | None) -> _Row:
    return field, (here, there), (field, field)


def _policy(service: Service) -> str:
    spec = service.spec
    if spec.ip_family_policy:
        return spec.ip_family_policy
    # k8s.io/kubernetes pkg/registry/core/service/storage/alloc.go initIPFamilyFields
    return "SingleStack" if spec.selector or not service.is_headless else "RequireDualStack"


# The fields of Services that are not of type ExternalName, which has only a CNAME record.
_FIELDS: Final[tuple[tuple[str, Callable[[Service], str | None]], ...]] = (
    ("spec.selector", lambda it: labels_text(dict(sorted((it.spec.selector or {}).items()))) or None),
    ("spec.clusterIP", lambda it: "None" if it.is_headless else "an address"),
    ("spec.publishNotReadyAddresses", lambda it: str(bool(it.spec.publish_not_ready_addresses)).lower()),
    ("spec.ipFamilyPolicy", _policy),
)  # fmt: skip


def _of_services(here: Manifest, there: Manifest) -> Iterator[_Row]:
    one, other = here.object, there.object
    assert isinstance(one, Service), "of its kind, and valid"
    assert isinstance(other, Service), "of its kind, and valid"
    types = [each.spec.type or "ClusterIP" for each in (one, other)]
    yield _row("spec.type", *types)
    if "ExternalName" in types:
        names = (
            (each.spec.external_name or "").lower() if of == "ExternalName" else None
            for each, of in zip((one, other), types, strict=True)
        )
        yield _row("spec.externalName", *names)
        return
    for field, value in _FIELDS:
        yield _row(field, value(one), value(other))
    if one.spec.ip_families and other.spec.ip_families:
        yield _row(
            "spec.ipFamilies", ",".join(one.spec.ip_families), ",".join(other.spec.ip_families)
        )
    yield from _of_ports(one.spec.ports or (), other.spec.ports or ())


def _of_ports(here: Sequence[ServicePort], there: Sequence[ServicePort]) -> Iterator[_Row]:
    """The ports by name, then the remaining ones by number and protocol."""
    left = dict(enumerate(there))
    partners: dict[int, int] = {}
    for key in (lambda each: each.name or "", _number):
        for at, port in enumerate(here):
            if at not in partners:
                found = next((one for one, each in left.items() if key(each) == key(port)), None)
                if found is not None:
                    partners[at] = found
                    del left[found]
    for at, port in enumerate(here):
        label = f"spec.ports[{port.name or _number(port)}]"
        if at not in partners:
            yield label, (_port(port), None), (f"spec.ports[{at}]", "spec.ports")
            continue
        other = partners[at]
        for (field, one), (_, two) in zip(_parts(port), _parts(there[other]), strict=True):
            places = f"spec.ports[{at}].{field}", f"spec.ports[{other}].{field}"
            yield f"{label}.{field}", (one, two), places
    for at, port in left.items():
        label = f"spec.ports[{port.name or _number(port)}]"
        yield label, (None, _port(port)), ("spec.ports", f"spec.ports[{at}]")


def _number(port: ServicePort) -> str:
    return f"{port.port}/{port.protocol or 'TCP'}"


def _parts(port: ServicePort) -> tuple[tuple[str, str | None], ...]:
    return (
        ("name", port.name or None),
        ("port", str(port.port)),
        ("targetPort", str(port.target_port or port.port)),
        ("protocol", port.protocol or "TCP"),
    )


def _port(port: ServicePort) -> str:
    return f"{_number(port)} to {port.target_port or port.port}"


def _of_stateful_sets(here: Manifest, there: Manifest) -> Iterator[_Row]:
    one, other = here.object, there.object
    assert isinstance(one, Workload), "of its kind, and valid"
    assert isinstance(other, Workload), "of its kind, and valid"
    yield _row("spec.serviceName", one.spec.service_name or None, other.spec.service_name or None)
    # If replicas is not set, an autoscaler may set it.
    if all(value_at(each.content, "spec.replicas") is not None for each in (here, there)):
        yield _row("spec.replicas", _pods(here, one), _pods(there, other))


def _pods(manifest: Manifest, owner: Workload) -> str:
    """The names of the pods."""
    count, start = owner.spec.replicas or 0, owner.spec.ordinals.start or 0
    first, last = f"{manifest.name}-{start}", f"{manifest.name}-{start + count - 1}"
    return "no pods" if not count else first if count == 1 else f"{first} to {last}"
