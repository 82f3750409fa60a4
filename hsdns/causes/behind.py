"""From a Service behind which nothing stands, or the name of a pod below it, back to what a person can change.

Path: explanation/, failing.py, rules/ -> here -> pod.py, labels.py -> Cause.
Rule 1: one step after another, Service -> EndpointSlices -> ports -> selector -> workload -> pod; the first that is
        wrong is the cause.
Rule 2: kube-proxy connects a port to the endpoints of those slices that have a port of the same name.  If no endpoint
        is ready, it takes those that still serve while they terminate; DNS never does.
Source: k8s.io/kubernetes pkg/proxy/topology.go, endpointslicecache.go.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Final

from hsdns.causes.alias import cause_of_alias
from hsdns.causes.cause import Cause
from hsdns.causes.labels import (
    POD_NAME,
    corrected,
    different,
    in_other_namespace,
    is_misspelt,
    is_set_later,
    mismatch,
    unlike,
)
from hsdns.causes.pod import cut, trouble_of
from hsdns.causes.ports import (
    choices,
    differing_ports,
    meant_port,
    named,
    ports_of,
    quoted,
    without_ports,
    wrong_target,
)
from hsdns.causes.view import ENDPOINTS, PODS, SLICES, Controlled, View
from hsdns.cluster.controllers.endpointslice import (
    LEADER,
    NO_ADDRESSES,
    SKIP_MIRROR,
    is_mirrored,
)
from hsdns.cluster.controllers.kinds import Endpoints, PodManifest, is_ready
from hsdns.cluster.controllers.workload import MAX_SET_NAME, TERMINAL
from hsdns.cluster.objects import (
    SERVICE_NAME_LABEL,
    TOLERATE,
    Endpoint,
    EndpointSlice,
    Service,
    ServicePort,
    labels_text,
)

FQDN: Final = "FQDN"
_FAILURE: Final = "ReplicaFailure"  # a condition of Deployments and ReplicaSets
Listed = Sequence[tuple[EndpointSlice, Endpoint]]


def leads_somewhere(
    service: Service, slices: Sequence[EndpointSlice], port: ServicePort | None = None
) -> bool:
    """Whether a Service, or one port of it, leads to an endpoint."""
    slices = _followed(service, slices, port)
    reached = {
        each.name or ""
        for part in slices
        if any(_is_used(service, endpoint, slices) for endpoint in part.endpoints or ())
        for each in part.ports or ()
    }
    if port is not None:
        return (port.name or "") in reached
    if service.is_headless or not service.spec.ports:
        return any(
            _is_used(service, each, slices) for part in slices for each in part.endpoints or ()
        )
    return any((each.name or "") in reached for each in service.spec.ports)


def _followed(
    service: Service, slices: Sequence[EndpointSlice], port: ServicePort | None
) -> list[EndpointSlice]:
    """The slices that clients get to: host names for addresses have no SRV records, and kube-proxy takes none.

    Nor does it take addresses of a family that no cluster IP has.
    """
    takes_names = service.is_headless and port is None
    slices = [each for each in slices if takes_names or each.address_type != FQDN]
    families = _families(service)
    return [each for each in slices if not families or each.address_type in families]


def _families(service: Service) -> set[str]:
    """The families of the cluster IPs; none if there are none."""
    found = service.spec.cluster_ips or [service.spec.cluster_ip or ""]
    return {"IPv6" if ":" in each else "IPv4" for each in found if each not in ("", "None")}


def cause_behind(view: View, service: Service, port: ServicePort | None = None) -> Cause | None:
    """Why nothing stands behind a Service, or behind one port of it; None if something does, or it is not known."""
    if service.spec.type == "ExternalName":
        return cause_of_alias(service, view.services.get, view.domain)
    if SLICES in view.unknown:
        return None
    slices = view.slices(service.key)
    if leads_somewhere(service, slices, port):
        return None
    if not slices and not service.spec.selector and ENDPOINTS in view.unknown:
        return None
    followed = _followed(service, slices, port)
    listed = [(part, each) for part in followed for each in part.endpoints or ()]
    if any(_is_used(service, each, slices) for _, each in listed):
        port = port or (service.spec.ports or [ServicePort()])[0]
        return _of_ports(view, service, port, followed)
    why = _of_unready(view, service, listed) if listed else _of_none(view, service, slices)
    tail = ""
    if listed and service.is_headless:
        tail = f"; {published(service)}"
        if is_tolerant(service):
            todo = f"set publishNotReadyAddresses: true in the spec of {place(service)}"
            why = why._replace(code="HS142", place=place(service), todo=todo)
    return why._replace(sentence=f"{_head(service, len(listed))}{why.sentence}{tail}")


def is_tolerant(service: Service) -> bool:
    """Whether a Service has the annotation that publishNotReadyAddresses has replaced."""
    return (service.metadata.annotations or {}).get(TOLERATE) == "true"


def published(service: Service) -> str:
    """The field that puts endpoints that are not ready into answers."""
    if is_tolerant(service):
        return (
            f"the annotation {TOLERATE.rpartition('/')[2]} has no effect on EndpointSlices, "
            "publishNotReadyAddresses has"
        )
    flag = str(bool(service.spec.publish_not_ready_addresses)).lower()
    return f"publishNotReadyAddresses is {flag}"


def _head(service: Service, count: int) -> str:
    if not service.is_headless:
        address = (service.spec.cluster_ips or [service.spec.cluster_ip or place(service)])[0]
        return f"0 of {count} endpoints behind {address}{' are ready' if count else ''}"
    if count:
        return f"0 of {count} endpoints of {place(service)} are ready"
    return f"{place(service)} has no endpoints"


def place(service: Service) -> str:
    """A Service in sentences."""
    return f"Service {service.metadata.namespace}/{service.metadata.name}"


def _is_used(service: Service, endpoint: Endpoint, slices: Sequence[EndpointSlice]) -> bool:
    """Whether clients get to an endpoint (Rule 2)."""
    if not endpoint.addresses:
        return False
    if is_ready(endpoint):
        return True
    conditions = endpoint.conditions
    is_serving = conditions is not None and bool(conditions.terminating and conditions.serving)
    every = (each for part in slices for each in part.endpoints or ())
    return is_serving and not service.is_headless and not any(map(is_ready, every))


# Endpoints that are not ready.


def _of_unready(view: View, service: Service, listed: Listed) -> Cause:
    namespace = service.metadata.namespace
    names = [(each.target_ref.name if each.target_ref else "") or "" for _, each in listed]
    for cause in filter(None, (_of_pod(view.pod(namespace, each)) for each in names)):
        return cause
    part, endpoint = listed[0]
    where = f"EndpointSlice {namespace}/{part.metadata.name}"
    conditions = endpoint.conditions
    shown = ": terminating" if conditions is not None and conditions.terminating else ""
    todo = f"set conditions.ready of the endpoints in {where}"
    if names[0]:
        todo = f"kubectl -n {namespace} describe pod {names[0]}"
    return Cause("HS143", where, shown, todo)


def _of_pod(pod: PodManifest | None) -> Cause | None:
    """Why a pod is not ready, after a colon."""
    trouble = trouble_of(pod)
    if pod is None or trouble is None:
        return None
    namespace = pod.metadata.namespace
    where, todo = f"Pod {namespace}/{pod.metadata.name}", f"kubectl -n {namespace} {trouble.tells}"
    return Cause("HS143", where, f": {trouble.sentence}", todo, trouble.since)


# No endpoints.


def _of_none(view: View, service: Service, slices: Sequence[EndpointSlice]) -> Cause:
    namespace, name = service.key
    selector = service.spec.selector or {}
    if not selector:
        skipped = next((each for each in slices if each.address_type == FQDN), None)
        if skipped is not None:
            part = f"EndpointSlice {namespace}/{skipped.metadata.name}"
            todo = (
                f"write {place(service)} with type: ExternalName, and the host name as externalName"
            )
            if service.is_headless:
                return Cause("HS002", part, f" with an address: {part} has host names", todo)
            return Cause("HS002", part, f": {part}: {NO_ADDRESSES}", todo)
        if slices:
            part = f"EndpointSlice {namespace}/{slices[0].metadata.name}"
            own, given = _families(service), slices[0].address_type
            if own and given not in own:
                wanted = " and ".join(sorted(own))
                sentence = f": the addresses of {part} are {given}, and the cluster IP is {wanted}"
                return Cause("", part, sentence, f"write {wanted} addresses into {part}")
            return Cause("", part, ": its EndpointSlices are empty", f"add endpoints to {part}")
        stray = _stray(view, namespace, name)
        if stray is not None:
            part = f"EndpointSlice {stray.metadata.namespace}/{stray.metadata.name}"
            owner = (stray.metadata.labels or {})[SERVICE_NAME_LABEL]
            if owner == name:
                sentence = f": {part} has its label, but is not in namespace {namespace}"
                todo = f"create {part} in namespace {namespace}"
                return Cause("HS151", part, sentence, todo)
            sentence = f": the label of {part} names another Service; {unread_slice(owner)}"
            todo = f"set the label {SERVICE_NAME_LABEL} of {part} to {name}"
            return Cause("HS151", part, sentence, todo)
        mark = mirror_mark(view.endpoints.get(service.key))
        if mark:
            part = f"Endpoints {namespace}/{name}"
            return Cause(
                "HS153", part, f": {part}: {not_mirrored(mark)}", f"remove {mark} of {part}"
            )
        return Cause(
            "",
            place(service),
            ": it has no selector and no EndpointSlice",
            f"add a selector to {place(service)}, or an EndpointSlice with the label {SERVICE_NAME_LABEL}: {name}",
        )
    pods = view.selected(namespace, selector)
    if pods:
        return _of_selected(service, pods)
    if PODS in view.unknown:
        return Cause(
            "",
            place(service),
            f"; pods are not known: {view.unknown[PODS]}",
            f"kubectl -n {namespace} get pods -l {labels_text(selector)}",
        )
    for found in view.templates(namespace, selector):
        return _of_workload(view, found)
    return _of_selector(view, service, selector)


def _stray(view: View, namespace: str, name: str) -> EndpointSlice | None:
    """A slice that may be meant for a Service: its label is like the name, or its own name is."""
    for part in view.stray_slices():
        owner = (part.metadata.labels or {}).get(SERVICE_NAME_LABEL, "")
        is_near = part.metadata.namespace == namespace
        is_like = is_misspelt(owner, name) or part.metadata.name.startswith(f"{name}-")
        if is_like if is_near else owner == name:
            return part
    return None


def mirror_mark(found: Endpoints | None) -> str:
    """The label or annotation because of which Endpoints are not mirrored; "" if there is none."""
    if found is None or is_mirrored(found):
        return ""
    is_label = (found.metadata.labels or {}).get(SKIP_MIRROR) == "true"
    return f"the label {SKIP_MIRROR}" if is_label else f"the annotation {LEADER}"


def not_mirrored(mark: str) -> str:
    """What follows from it."""
    return f"with {mark} no EndpointSlice is made of them, and DNS reads slices only"


def unread_slice(owner: str) -> str:
    """What follows from the label of a slice that names no Service."""
    return f"there is no Service {owner}, so nothing reads the slice"


def _of_selected(service: Service, pods: Sequence[PodManifest]) -> Cause:
    namespace = service.metadata.namespace
    running = [each for each in pods if each.status.phase not in TERMINAL]
    for cause in filter(None, map(_of_pod, running or pods)):
        return cause
    name = pods[0].metadata.name
    status = pods[0].status
    if not status.pod_ip and not status.pod_ips:
        sentence = f": pod {name}, which its selector matches, has no address"
    else:
        sentence = f": pod {name}, which its selector matches, is in no EndpointSlice"
    todo = f"kubectl -n {namespace} describe endpointslices -l {SERVICE_NAME_LABEL}={service.metadata.name}"
    return Cause("", f"Pod {namespace}/{name}", sentence, todo)


def _of_workload(view: View, found: Controlled) -> Cause:
    """Why a workload has no pods."""
    meta, spec = found.workload.metadata, found.workload.spec
    where, kubectl = f"{found.kind} {meta.namespace}/{meta.name}", f"kubectl -n {meta.namespace}"
    named = f"{found.kind.lower()}/{meta.name}"
    if spec.replicas == 0 and found.kind != "DaemonSet":
        todo = f"set spec.replicas of {where} to 1 or more"
        if view.is_live:
            todo = f"{kubectl} scale {named} --replicas=1"
        return Cause("", where, f": {found} has replicas: 0", todo)
    if found.kind == "StatefulSet" and len(meta.name) > MAX_SET_NAME:
        return Cause(
            "",
            where,
            f": {found} has no pods: its name has {len(meta.name)} characters, and {MAX_SET_NAME} are possible",
            f"give {where} a name of at most {MAX_SET_NAME} characters",
        )
    if spec.suspend:
        return Cause(
            "",
            where,
            f": {found} is suspended",
            f"set spec.suspend of {where} to false",
        )
    own = [found] + [
        each
        for each in view.workloads(meta.namespace)
        for owner in each.workload.metadata.owner_references or ()
        if (owner.kind, owner.name) == (found.kind, meta.name)
    ]
    describe = f"{kubectl} describe {named}"
    for condition in (one for each in own for one in each.workload.status.conditions or ()):
        if condition.type == _FAILURE and condition.status == "True":
            said, since = condition.message or condition.reason, condition.last_transition_time
            return Cause("", where, f": {found} cannot create pods: {said}", describe, since or "")
        if condition.type in ("Complete", "Failed") and condition.status == "True":
            word = "finished" if condition.type == "Complete" else "failed"
            return Cause("", where, f": {found} has {word}", describe)
    for each in own:
        event = view.failures.get((meta.namespace, each.kind, each.name))
        if event is not None:
            said, since = cut(event.message or ""), event.last_timestamp
            return Cause("", where, f": {found} cannot create pods: {said}", describe, since or "")
    return Cause("", where, f": {found}, whose pods its selector matches, has none", describe)


def _of_selector(view: View, service: Service, selector: Mapping[str, str]) -> Cause:
    namespace, name = service.key
    where, candidates = place(service), view.labelled(namespace)
    near = candidates.nearest(name, selector, service.metadata.labels or {})
    if near is not None and different(selector, near.labels) == [POD_NAME]:
        sentence = f": it selects pod {selector[POD_NAME]} alone, and there is none of this name"
        return Cause("HS101", where, sentence, f"kubectl -n {namespace} get pods --show-labels")
    if near is not None:
        sentence = f": {mismatch(selector, near.place, near.labels)}"
        if is_set_later(selector, near.labels):
            has = {key: each for key, each in selector.items() if key in near.labels}
            todo = f"kubectl -n {namespace} get pods -l {labels_text(has)} --show-labels"
            return Cause("HS101", where, sentence, todo)
        return Cause("HS101", where, sentence, _patch(view, service, selector, near.labels))
    for other, found in view.elsewhere(namespace, selector):
        sentence = f": {in_other_namespace(selector, namespace, found.place, other)}"
        todo = f"create {where} in namespace {other}, or the pods in {namespace}"
        return Cause("HS101", where, sentence, todo)
    sentence = f": {unlike(selector, f'namespace {namespace}', has_pods=bool(candidates))}"
    return Cause("HS101", where, sentence, f"kubectl -n {namespace} get pods --show-labels")


def _patch(
    view: View, service: Service, selector: Mapping[str, str], labels: Mapping[str, str]
) -> str:
    """The change of a selector with which it matches the pods that it means."""
    namespace, name = service.key
    right = corrected(selector, labels)
    if not right:
        return f"give the pods the labels {labels_text(selector)}, or {place(service)} their labels"
    if not view.is_live:
        return f"set spec.selector of {place(service)} to {labels_text(right)}"
    change = {key: None for key in selector if key not in right} | {
        key: each for key, each in right.items() if selector.get(key) != each
    }
    patch = json.dumps({"spec": {"selector": change}}, separators=(",", ":"))
    return f"kubectl -n {namespace} patch service {name} --type=merge -p '{patch}'"


# Ports.


def _of_ports(
    view: View, service: Service, port: ServicePort, slices: Sequence[EndpointSlice]
) -> Cause:
    """Why no slice has a port of a Service, though it has endpoints."""
    namespace, selector = service.metadata.namespace, service.spec.selector or {}
    if selector and isinstance(port.target_port, str):
        templates = list(view.templates(namespace, selector))
        pods = view.selected(namespace, selector)
        specs = [each.workload.spec.template.spec for each in templates]
        every = [one for spec in specs or [each.spec for each in pods] for one in ports_of(spec)]
        whose = "its pods"
        if templates or pods:
            whose = str(templates[0]) if templates else f"pod {pods[0].metadata.name}"
        known = {each.name: each for each in every if each.name}
        meant = meant_port(port, known)
        sentence, where = wrong_target(port, known, meant, whose), place(service)
        other = known.get(port.target_port)
        if other is not None:
            todo = f"set protocol of {named(port)} of {where} to {other.protocol or 'TCP'}"
            return Cause("HS111", where, sentence, todo)
        right = meant or choices(every) or "the number of the port"
        todo = f"set targetPort of {named(port)} of {where} to {right}"
        return Cause("HS111", where, sentence, todo)
    part = next((each for each in slices if each.endpoints), slices[0])
    where = f"EndpointSlice {namespace}/{part.metadata.name}"
    if not part.ports:
        todo = f"add port {port.port} to {where}"
        return Cause("HS152", where, without_ports(place(service), where), todo)
    return Cause(
        "HS113",
        where,
        differing_ports(port, place(service), (each.name or "" for each in part.ports), where),
        f"name the port of {where} {quoted(port.name or '')}",
    )


# The name of a pod below a Service.


def cause_of_pod(view: View, namespace: str, service_name: str, label: str) -> Cause | None:
    """Why a pod has no name `label` below a Service; None if it has, or no object means it."""
    if SLICES in view.unknown:
        return None
    slices = view.slices((namespace, service_name))
    listed = [(part, each) for part in slices for each in part.endpoints or ()]
    if any(is_ready(each) and label == each.hostname for _, each in listed):
        return None
    found = _meaning(view, namespace, service_name, label)
    pod = view.pod(namespace, label) or next(
        (
            each
            for each in view.pods(namespace)
            if (each.spec.hostname, each.spec.subdomain) == (label, service_name)
        ),
        None,
    )
    service = view.services.get((namespace, service_name))
    if service is None:
        is_own = pod is not None and pod.spec.subdomain == service_name
        return _without_service(view, namespace, service_name, found, pod if is_own else None)
    if pod is None:
        return _not_created(view, found, label) if found is not None else None
    name, why = pod.metadata.name, _of_pod(pod)
    own = next(
        (each for _, each in listed if each.target_ref and each.target_ref.name == name), None
    )
    if own is not None and not is_ready(own):
        todo = f"kubectl -n {namespace} describe pod {name}"
        why = why or Cause("HS143", f"Pod {namespace}/{name}", "", todo)
        sentence = f"endpoint {label} of {place(service)} is not ready{why.sentence}"
        return why._replace(sentence=f"{sentence}; {published(service)}")
    if why is not None:
        sentence = f"endpoint {label} of {place(service)} is missing{why.sentence}"
        return why._replace(sentence=sentence)
    selector = service.spec.selector or {}
    if own is None and not selector.items() <= (pod.metadata.labels or {}).items():
        labels = pod.metadata.labels or {}
        has = {key: labels[key] for key in different(selector, labels) if key in labels}
        shown = f", which has {labels_text(has)}" if has else ""
        sentence = f"the selector of {place(service)}, {labels_text(selector)}, does not match pod {name}{shown}"
        return Cause("HS102", place(service), sentence, _patch(view, service, selector, labels))
    return None


def _meaning(view: View, namespace: str, service_name: str, label: str) -> Controlled | None:
    """The StatefulSet that gives a pod its name."""
    stem, _, number = label.rpartition("-")
    found = view.workload(namespace, "StatefulSet", stem)
    if found is None or not number.isdecimal() or found.workload.spec.service_name != service_name:
        return None
    first = found.workload.spec.ordinals.start
    if not found.workload.spec.replicas:
        return found  # it means none: that is why
    is_one = first <= int(number) < first + (found.workload.spec.replicas or 0)
    return found if is_one else None


def _without_service(
    view: View, namespace: str, name: str, found: Controlled | None, pod: PodManifest | None
) -> Cause | None:
    if found is not None:
        labels, where, field = found.labels, f"{found.kind} {namespace}/{found.name}", "serviceName"
        whose, code = f"the pods of {found}", "HS102"
    elif pod is not None:
        labels, where = pod.metadata.labels or {}, f"Pod {namespace}/{pod.metadata.name}"
        whose, field, code = f"pod {pod.metadata.name}", "subdomain", "HS106"
    else:
        return None
    others = [
        each.metadata.name
        for each in view.services.values()
        if each.metadata.namespace == namespace
        and each.is_headless
        and each.spec.selector
        and each.spec.selector.items() <= labels.items()
    ]
    path = f"{namespace}/{name}"
    if others:
        todo = f"set {field} of {where} to {others[0]}, or add a headless Service {path}"
    else:
        selector = labels_text(_short(labels))
        todo = f"add a headless Service {path} with selector {selector}"
    return Cause(code, where, nameless(path, whose, others[:1]), todo)


def nameless(path: str, whose: str, others: Sequence[str]) -> str:
    """What follows from a serviceName or subdomain that is no Service; `others` select the pods."""
    is_one = whose.startswith("pod ")
    have = "has no DNS name" if is_one else "have no DNS names"
    hint = f"; Service {others[0]} selects {'it' if is_one else 'them'}" if others else ""
    return f"there is no Service {path}, so {whose} {have}{hint}"


def _short(labels: Mapping[str, str]) -> dict[str, str]:
    """Labels that are enough for a selector."""
    kept = {key: each for key, each in labels.items() if key in ("app", "app.kubernetes.io/name")}
    return kept or dict(sorted(labels.items())[:1])


def _not_created(view: View, found: Controlled, label: str) -> Cause:
    """Why a StatefulSet has not created a pod."""
    spec, namespace = found.workload.spec, found.workload.metadata.namespace
    before = 0 if spec.pod_management_policy == "Parallel" else int(label.rpartition("-")[2])
    last = min(before, spec.ordinals.start + (spec.replicas or 0))
    names = (f"{found.name}-{ordinal}" for ordinal in range(spec.ordinals.start, last))
    for why in filter(None, (_of_pod(view.pod(namespace, each)) for each in names)):
        sentence = f"pod {label} is not created before the one before it is ready{why.sentence}"
        return why._replace(sentence=sentence)
    why = _of_workload(view, found)
    return why._replace(sentence=f"pod {label} is not created{why.sentence}")
