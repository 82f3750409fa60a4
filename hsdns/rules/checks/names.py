"""HS301, HS302: names of Services that other objects use, beside those that there will be.

Path: judging.py -> here.
Rule 1: a name is only judged if it means a Service of these files for sure: it is below `svc` or in a URL with one of
        their namespaces, below a Service of theirs, or a misspelt name of one.  All others may be answered elsewhere.
Rule 2: a name that is put together when it is used, as `$(POD).db`, is not judged, and neither are comments.
Rule 3: an operator makes Services whose names begin with that of its custom resource, and a chart is not alone: a name
        that is in none of its objects may be that of another chart.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from hsdns.causes.alias import DOMAIN, cause_of_missing
from hsdns.causes.labels import is_misspelt, is_slip
from hsdns.cluster.controllers.kinds import Workload
from hsdns.cluster.objects import Service
from hsdns.corefile.tree import did_you_mean
from hsdns.rules.checks.services import chart_of
from hsdns.rules.objects import Manifest, Objects, check, mapping_at, mappings_at, texts_of
from hsdns.rules.rule import Remark

_LABEL: Final = r"[a-z0-9](?:[a-z0-9-]*[a-z0-9])?"
_HOST: Final = re.compile(
    rf"(?P<before>://|@|(?<![^\s,;=\"'\[(|]))(?P<host>{_LABEL}(?:\.{_LABEL})*)(?P<port>\.?:[0-9]{{1,5}})?(?=[/\s,;?\"'\])|:]|\.?$)",
    re.MULTILINE,
)
_COMMENT: Final = re.compile(r"^[ \t]*(?:#|//|;|--).*$", re.MULTILINE)
_NO_SERVICE: Final = "there is no Service"
_MADE: Final = ("kubernetes", "default")  # the Service of the API server
_ORDINAL: Final = re.compile(r"(.+)-(\d{1,9})")
_UNREAD: Final = frozenset(("CustomResourceDefinition", "EndpointSlice", "Endpoints"))


class _Used(NamedTuple):
    """A name that means a Service, or a pod below it; `is_certain` if it means one of the files."""

    text: str
    pod: str
    service: str
    namespace: str
    is_certain: bool


@check("HS301", needs="files", each="manifests")
def unanswered(objects: Objects, manifest: Manifest) -> Iterator[Remark]:
    """Names in the fields of an object that nothing answers."""
    if manifest.kind in _UNREAD or not objects.services or "uid" in manifest.metadata:
        return  # an object of a cluster, whose names the doctor looks up
    seen = set[tuple[str, bool]]()
    told = set[str]()
    for field, text in texts_of(manifest.content, ""):
        if field.startswith(("metadata.labels", "metadata.name", "metadata.managedFields")):
            continue
        if manifest.kind == "Service" and field != "spec.externalName":
            continue
        for found in _HOST.finditer(
            _COMMENT.sub(lambda each: " " * len(each[0]), text) if "\n" in text else text
        ):
            is_url = found["before"] in ("://", "@") or bool(found["port"])
            if (found["host"], is_url) in seen:
                continue
            seen.add((found["host"], is_url))
            used = _used(objects, manifest, found["host"], is_url)
            why = _why_not(objects, used) if used is not None else ""
            if why and found["host"] not in told:
                told.add(found["host"])
                is_elsewhere = why.startswith(_NO_SERVICE) and not why.endswith("?")
                sentence = f"nothing in these files answers {found['host']}: {why}"
                if isinstance(manifest.object, Service):
                    keys = [each.key for _, each in objects.services]
                    cause = cause_of_missing(manifest.object, keys)
                    sentence = f"{cause.sentence}; {cause.todo}" if cause is not None else sentence
                level = "warning" if is_elsewhere else ""
                place = manifest.within(field, text, found.start("host"), found["host"])
                yield manifest.remark(field, sentence, level=level)._replace(position=place)


def _used(objects: Objects, manifest: Manifest, host: str, is_url: bool) -> _Used | None:
    labels = host.removesuffix(f".{DOMAIN}").split(".")
    own, *pod = manifest.namespace, *labels[:-3]
    if labels[-1] == "svc" and 2 <= len(labels) <= 4:
        service, namespace = labels[-3:-1] if len(labels) > 2 else (labels[0], "svc")
        is_certain = _is_own(objects, manifest, namespace) or (namespace == "svc" and is_url)
        return _Used(host, "".join(pod), service, namespace, is_certain)
    if len(labels) == 1 and is_url:
        is_certain = host in objects.service_names and _is_own(objects, manifest, own)
        return _Used(host, "", host, own, is_certain)
    if not 2 <= len(labels) <= 3:
        return None
    *pod, service, namespace = labels
    is_space = namespace in objects.namespaces
    is_space = is_space or (is_url and _meant_namespace(objects, service, namespace) != "")
    if is_space:
        is_certain = is_url and _is_own(objects, manifest, namespace)
        return _Used(host, "".join(pod), service, namespace, is_certain)
    if len(labels) == 2 and (is_url or _ORDINAL.fullmatch(service)):
        return _Used(host, service, namespace, own, False)
    return None


def _is_own(objects: Objects, manifest: Manifest, namespace: str) -> bool:
    """Whether all Services of a namespace are in the files: each object says where it is, and none is of a chart."""
    is_known = objects.is_placed and not objects.partial and not chart_of(manifest)
    return is_known and namespace in objects.namespaces


def _meant_namespace(objects: Objects, service: str, namespace: str) -> str:
    """The only namespace of a Service whose name is a misspelt one; empty if there is none."""
    spaces = {each.namespace for each, _ in objects.service_names.get(service, ())}
    near = [each for each in spaces if is_misspelt(namespace, each)]
    return near[0] if len(near) == 1 and namespace not in spaces else ""


def _why_not(objects: Objects, used: _Used) -> str:
    """Why nothing answers a name; empty if something does, or may."""
    service, namespace = used.service, used.namespace
    if (service, namespace) == _MADE:
        return ""
    if namespace == "svc" and namespace not in objects.namespaces:
        return "it lacks the namespace; write NAME.NAMESPACE.svc" if used.is_certain else ""
    named = [each for each in objects.service_names.get(service, ()) if _is_in(each[0], namespace)]
    if named:
        return _why_no_pod(objects, named[0], used) if used.pod else ""
    if meant := _meant_namespace(objects, service, namespace):
        return (
            f'{_NO_SERVICE} {service} in namespace {namespace}; did you mean "{service}.{meant}"?'
        )
    here = (each.name for each, _ in objects.services if _is_in(each, namespace))
    near = {each for each in here if is_misspelt(service, each)}
    if len(near) == 1:
        return f'{_NO_SERVICE} {service}; did you mean "{near.pop()}"?'
    if not used.is_certain or any(service.startswith(each.name) for each in objects.custom):
        return ""
    spaces = {each.namespace for each, _ in objects.service_names.get(service, ())}
    where = f"; it is in namespace {spaces.pop()}" if len(spaces) == 1 else ""
    return f"{_NO_SERVICE} {service} in namespace {namespace}{where}"


def _why_no_pod(objects: Objects, named: tuple[Manifest, Service], used: _Used) -> str:
    manifest, _ = named
    sets = [
        (each, each.manifest.object.spec)
        for each in objects.templates
        if each.manifest.kind == "StatefulSet"
        and isinstance(each.manifest.object, Workload)
        and _is_in(each.manifest, used.namespace)
    ]
    below = [(each, spec) for each, spec in sets if spec.service_name == manifest.name]
    found = _ORDINAL.fullmatch(used.pod)
    if found is None or not below:
        return ""
    owner = next(((each, spec) for each, spec in below if each.name == found[1]), None)
    if owner is None:
        if any(each.name == found[1] for each, _ in sets):
            return ""  # HS104 says so
        names = ", ".join(each.name for each, _ in below)
        return f"no StatefulSet {found[1]} has serviceName {manifest.name}, but {names}"
    each, spec = owner
    first, count = spec.ordinals.start, spec.replicas
    if count is None or first <= int(found[2]) < first + count:
        return ""
    pods = f": {each.name}-{first}" + (f" to {each.name}-{first + count - 1}" if count > 1 else "")
    replicas = "1 replica" if count == 1 else f"{count} replicas"
    return f"{each.manifest} has {replicas}{pods if count else ''}"


def _is_in(manifest: Manifest, namespace: str) -> bool:
    return manifest.namespace == namespace or not manifest.namespace or not namespace


# HS302: references to a Service by an Ingress, a route or a webhook.
#
# Rule: a Service that is not in the files may be elsewhere, unless its name is a misspelt one of these.


_ROUTES: Final = ("HTTPRoute", "GRPCRoute", "TLSRoute", "TCPRoute", "UDPRoute")
_REFERRING: Final = frozenset(
    (
        "Ingress", "IngressRoute", "APIService", "ValidatingWebhookConfiguration", "MutatingWebhookConfiguration",
        *_ROUTES,
    )
)  # fmt: skip


@check("HS302", needs="files", each="manifests")
def reference(objects: Objects, manifest: Manifest) -> Iterator[Remark]:
    """References to Services or to ports that there are not."""
    if objects.is_patched(manifest) or "uid" in manifest.metadata:
        return
    if manifest.kind == "ServiceMonitor":
        yield from _monitored(objects, manifest)
    for each in _references(manifest.content, "") if manifest.kind in _REFERRING else ():
        namespace = each.namespace or manifest.namespace
        here = [one for one in objects.services if _is_in(one[0], namespace)]
        named = [one for one in here if one[0].name == each.name]
        near = {one.name for one, _ in here if is_misspelt(each.name, one.name)}
        if named:
            yield from _port(objects, manifest, each, named)
        elif len(near) == 1:
            edit = manifest.replaced(each.name_field, *near) if is_slip(each.name, *near) else None
            sentence = f'there is no Service {each.name}; did you mean "{near.pop()}"?'
            yield manifest.remark(each.name_field, sentence, edit=edit)


class _Reference(NamedTuple):
    """A Service and its port as an object refers to them, with their fields."""

    name_field: str
    name: str
    namespace: str
    port_field: str
    port: object


def _port(
    objects: Objects, manifest: Manifest, each: _Reference, named: list[tuple[Manifest, Service]]
) -> Iterator[Remark]:
    ports = [one for _, service in named for one in service.spec.ports or ()]
    is_external = any(service.spec.type == "ExternalName" for _, service in named)
    if objects.is_patched(*(one for one, _ in named)) or is_external or not ports:
        return
    if each.port in (None, 0) or any(
        each.port in (one.name, one.port, str(one.port)) for one in ports
    ):
        return
    has = ", ".join(f"{one.port} ({one.name})" if one.name else str(one.port) for one in ports)
    near = [one.name for one in ports if one.name and is_slip(str(each.port), one.name)]
    edit = manifest.replaced(each.port_field, near[0]) if len(near) == 1 else None
    sentence = f"{named[0][0]} has no port {each.port}; it has {has}"
    yield manifest.remark(each.port_field, sentence, edit=edit)


def _references(value: Any, field: str) -> Iterator[_Reference]:
    """The references to Services in a value."""
    if isinstance(value, list):
        for at, each in enumerate(value):
            yield from _references(each, f"{field}[{at}]")
    elif isinstance(value, dict):
        if "serviceName" in value:  # of an Ingress before networking.k8s.io/v1
            own = field, "serviceName", "servicePort"
            yield _reference(value, *own)
        for key, each in value.items():
            below = f"{field}.{key}".removeprefix(".")
            if key == "service" and isinstance(each, dict):
                yield _reference(each, below)
            elif key in ("backendRefs", "services"):
                for at, one in mappings_at(value, key):
                    if one.get("kind", "Service") == "Service":
                        yield _reference(one, f"{below}[{at}]")
            else:
                yield from _references(each, below)


def _reference(
    value: dict[str, Any], field: str, name: str = "name", port: str = "port"
) -> _Reference:
    found, step = value.get(port), ""
    if isinstance(found, dict):
        step = next((each for each in ("name", "number") if each in found), "")
        found = found.get(step)
    at = f"{field}.{port}.{step}".rstrip(".")
    namespace = str(value.get("namespace") or "")
    return _Reference(f"{field}.{name}", str(value.get(name) or ""), namespace, at, found)


def _monitored(objects: Objects, manifest: Manifest) -> Iterator[Remark]:
    """Ports that none of the Services has that a ServiceMonitor selects in its namespace."""
    wanted = mapping_at(manifest.content, "spec.selector.matchLabels")
    if not wanted or "namespaceSelector" in mapping_at(manifest.content, "spec"):
        return
    chosen = [
        each
        for each in objects.services
        if _is_in(each[0], manifest.namespace) and wanted.items() <= each[0].labels.items()
    ]
    known = {port.name for _, service in chosen for port in service.spec.ports or () if port.name}
    for at, each in mappings_at(manifest.content, "spec.endpoints") if chosen else ():
        name = each.get("port")
        if isinstance(name, str) and name not in known:
            sentence = f'{chosen[0][0]}, which it selects, has no port named "{name}"'
            yield manifest.remark(
                f"spec.endpoints[{at}].port", f"{sentence}{did_you_mean(name, known)}"
            )
