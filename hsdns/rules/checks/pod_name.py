"""HS102 to HS108: names of pods, which depend on hostname, subdomain and serviceName.

Path: judging.py -> here.
Source: k8s.io/endpointslice: an endpoint has a hostname if its pod has one and its subdomain is the Service's name.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

import msgspec

from hsdns.cluster.controllers.api_values import Refused, check_label
from hsdns.cluster.controllers.kinds import Workload
from hsdns.rules.check import check
from hsdns.rules.finding import Remark
from hsdns.rules.manifest import Manifest
from hsdns.rules.objects import Objects, PodSet, is_headless, is_near
from hsdns.sources.field_position import field_node

_POD_NAME: Final = re.compile(r"spec\.(template\.spec\.)?(hostname|subdomain)")


def is_about_pod_name(fault: Refused) -> bool:
    """Whether a refusal is about a hostname or a subdomain."""
    return _POD_NAME.fullmatch(fault.field) is not None


@check("HS102")
def service_name(objects: Objects) -> Iterator[Remark]:
    """StatefulSets whose serviceName gives their pods no names."""
    for pods, workload in _stateful_sets(objects):
        name = workload.spec.service_name
        if name:
            yield from _without_service(objects, pods, name, "spec.serviceName")


@check("HS103")
def with_cluster_ip(objects: Objects) -> Iterator[Remark]:
    """StatefulSets whose Service has a cluster IP."""
    for pods, workload in _stateful_sets(objects):
        manifest, name = pods.manifest, workload.spec.service_name
        named = objects.named(name, manifest) if name else []
        if (
            len(named) == 1
            and not is_headless(named[0][1])
            and named[0][1].spec.type != "ExternalName"
        ):
            headless = [
                str(each) for each, service in objects.services_of(pods) if is_headless(service)
            ]
            hint = f"; {headless[0]} is headless" if headless else ""
            yield manifest.remark(
                "spec.serviceName",
                f"{named[0][0]} has a cluster IP, so its name resolves to that and not to the pods{hint}; "
                "name a headless Service if clients look for all pods",
            )


@check("HS104")
def other_service(objects: Objects) -> Iterator[Remark]:
    """Names of pods written below another Service than that of serviceName."""
    for pods, workload in _stateful_sets(objects):
        owner, own = pods.manifest, workload.spec.service_name
        others = [
            each.name
            for each, service in objects.services_of(pods)
            if is_headless(service) and each.name != own
        ]
        if not own or not others:
            continue
        services = "|".join(map(re.escape, sorted(others)))
        written = re.compile(rf"(?<![\w.-])({re.escape(owner.name)}-\d+)\.({services})(?=[^\w-]|$)")
        for manifest in objects.manifests:
            if not is_near(manifest, owner) or not _has(written, manifest):
                continue
            for field, text in _texts(manifest.content, ""):
                found = written.search(text)
                if found:
                    yield manifest.remark(
                        field,
                        f'"{found[0]}" does not exist: serviceName of {owner} is {own}, so the names of its pods '
                        f'are below {own}; write "{found[1]}.{own}", or serviceName: {found[2]}',
                    )


@check("HS105")
def without_hostname(objects: Objects) -> Iterator[Remark]:
    """Pods with a subdomain and no hostname."""
    for pods in objects.templates:
        manifest, spec = pods.manifest, pods.spec
        if (
            not spec.subdomain
            or spec.hostname
            or manifest.kind in ("StatefulSet", "Job", "CronJob")
        ):
            continue
        if manifest.object is None:
            continue  # a kind whose controller may set it
        yield manifest.remark(
            f"{pods.field}.subdomain",
            "without a hostname the subdomain has no effect, and the pods have no names of their own; "
            "add hostname for one pod, or use a StatefulSet for several",
        )


@check("HS106")
def without_service(objects: Objects) -> Iterator[Remark]:
    """Pods whose subdomain is not a Service that selects them."""
    for pods in objects.templates:
        spec = pods.spec
        if spec.hostname and spec.subdomain and pods.manifest.kind != "StatefulSet":
            yield from _without_service(objects, pods, spec.subdomain, f"{pods.field}.subdomain")


@check("HS107")
def no_label(objects: Objects) -> Iterator[Remark]:
    """Hostnames and subdomains that are not DNS labels."""
    for manifest in objects.manifests:
        fault = manifest.refused
        if fault is None or not is_about_pod_name(fault):
            continue
        node = field_node(manifest.node, fault.field)
        lower = str(getattr(node, "value", "")).lower()
        try:
            check_label(fault.field, lower)
            edit = manifest.replaced(fault.field, lower)
        except Refused:
            edit = None
        sentence = str(fault).removeprefix(f"{fault.field}: ")
        yield manifest.remark(fault.field, sentence, edit=edit)


@check("HS108")
def shared_hostname(objects: Objects) -> Iterator[Remark]:
    """Several pods with one hostname."""
    for pods in objects.templates:
        manifest, spec = pods.manifest, pods.spec
        is_named = spec.hostname and spec.subdomain and manifest.kind != "StatefulSet"
        if is_named and (pods.replicas or 0) > 1:
            yield manifest.remark(
                f"{pods.field}.hostname",
                f"all {pods.replicas} pods have the hostname {spec.hostname}, so "
                f"{spec.hostname}.{spec.subdomain} resolves to all of them; use a StatefulSet for a name each",
            )


def _stateful_sets(objects: Objects) -> Iterator[tuple[PodSet, Workload]]:
    for pods in objects.templates:
        found = pods.manifest.object
        if pods.manifest.kind == "StatefulSet" and isinstance(found, Workload):
            yield pods, found


def _without_service(objects: Objects, pods: PodSet, name: str, field: str) -> Iterator[Remark]:
    manifest = pods.manifest
    named = objects.named(name, manifest)
    # A Service that also selects other pods has another purpose, for example that all components find each other.
    headless = [
        str(each)
        for each, service in objects.services_of(pods)
        if is_headless(service)
        and all(
            one.manifest is manifest for one in objects.selected(each, service.spec.selector or {})
        )
    ]
    if not named:
        if headless:
            yield manifest.remark(
                field,
                f"there is no Service {name} here, so the pods have no names of their own; "
                f"{headless[0]} chooses them: write its name, or add the Service",
            )
        elif objects.is_whole:
            yield manifest.remark(
                field,
                f"there is no Service {name}, so the pods have no names of their own; "
                "add a headless Service of that name",
            )
        return
    for each, service in named:
        selector = service.spec.selector or {}
        # A missing label may be set while the pods run, like that of a primary.
        has_other = any(pods.labels.get(key, value) != value for key, value in selector.items())
        if has_other and len(named) == 1:
            shown = ",".join(f"{key}={value}" for key, value in selector.items())
            yield manifest.remark(
                field,
                f"the selector of {each}, {shown}, does not match the pods, so they have no names below it; "
                "correct the selector or the labels",
            )


def _has(written: re.Pattern[str], manifest: Manifest) -> bool:
    try:
        return written.search(msgspec.json.encode(manifest.content).decode()) is not None
    except (TypeError, RecursionError):
        return False


def _texts(value: Any, field: str) -> Iterator[tuple[str, str]]:
    """The texts in a value, with their fields."""
    if isinstance(value, str):
        yield field, value
    elif isinstance(value, dict):
        for key, each in value.items():
            step = f"[{key}]" if "." in str(key) else f".{key}"
            yield from _texts(each, f"{field}{step}".removeprefix("."))
    elif isinstance(value, list):
        for at, each in enumerate(value):
            yield from _texts(each, f"{field}[{at}]")
