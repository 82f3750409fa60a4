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
from hsdns.causes.labels import is_misspelt
from hsdns.cluster.controllers.kinds import Workload
from hsdns.cluster.objects import Service
from hsdns.rules.checks.services import chart_of
from hsdns.rules.objects import Manifest, Objects, check, mappings_at, texts_of
from hsdns.rules.rule import Remark

_LABEL: Final = r"[a-z0-9](?:[a-z0-9-]*[a-z0-9])?"
_HOST: Final = re.compile(
    rf"(?P<before>://|@|(?<![^\s,;=\"'\[(|]))(?P<host>{_LABEL}(?:\.{_LABEL})*)(?P<port>\.?:[0-9]{{1,5}})?(?=[/\s,;?\"'\])|:]|\.?$)",
    re.MULTILINE,
)
_COMMENT: Final = re.compile(r"^\s*(?:#|//|;|--).*$", re.MULTILINE)
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
    told = set[str]()
    for field, text in texts_of(manifest.content, ""):
        if field.startswith(("metadata.labels", "metadata.name", "metadata.managedFields")):
            continue
        if manifest.kind == "Service" and field != "spec.externalName":
            continue
        for found in _HOST.finditer(_COMMENT.sub("", text) if "\n" in text else text):
            is_url = found["before"] in ("://", "@") or bool(found["port"])
            used = _used(objects, manifest, found["host"], is_url)
            why = _why_not(objects, manifest, used) if used is not None else ""
            if why and found["host"] not in told:
                told.add(found["host"])
                is_elsewhere = why.startswith(_NO_SERVICE) and not why.endswith("?")
                sentence = f"nothing in these files answers {found['host']}: {why}"
                if isinstance(manifest.object, Service):
                    keys = [each.key for _, each in objects.services]
                    cause = cause_of_missing(manifest.object, keys)
                    sentence = f"{cause.sentence}; {cause.todo}" if cause is not None else sentence
                yield manifest.remark(field, sentence, level="warning" if is_elsewhere else "")


def _used(objects: Objects, manifest: Manifest, host: str, is_url: bool) -> _Used | None:
    labels = host.removesuffix(f".{DOMAIN}").split(".")
    own = manifest.namespace
    if labels[-1] == "svc" and 3 <= len(labels) <= 4:
        *pod, service, namespace = labels[:-1]
        return _Used(host, "".join(pod), service, namespace, _is_own(objects, manifest, namespace))
    if (not is_url and len(labels) == 1) or len(labels) > 3:
        return None
    if len(labels) > 1 and labels[-1] in objects.namespaces:
        *pod, service, namespace = labels
        return _Used(
            host, "".join(pod), service, namespace, is_url and _is_own(objects, manifest, namespace)
        )
    if len(labels) == 2 and (is_url or _ORDINAL.fullmatch(labels[0])):
        pod_name, below = labels
        return _Used(host, pod_name, below, own, False)
    return _Used(host, "", labels[0], own, False) if len(labels) == 1 else None


def _is_own(objects: Objects, manifest: Manifest, namespace: str) -> bool:
    """Whether all Services of a namespace are in the files: each object says where it is, and none is of a chart."""
    return namespace in objects.namespaces and objects.is_placed and not chart_of(manifest)


def _why_not(objects: Objects, manifest: Manifest, used: _Used) -> str:
    """Why nothing answers a name; empty if something does, or may."""
    here = [each for each in objects.services if _is_in(each[0], used.namespace)]
    named = [each for each in here if each[0].name == used.service]
    if (used.service, used.namespace) == _MADE:
        return ""
    if not named:
        near = [each.name for each, _ in here if is_misspelt(used.service, each.name)]
        if len(set(near)) == 1:
            return f'{_NO_SERVICE} {used.service}; did you mean "{near[0]}"?'
        if not used.is_certain or any(
            used.service.startswith(each.name) for each in objects.custom
        ):
            return ""
        return f"{_NO_SERVICE} {used.service} in namespace {used.namespace}"
    return _why_no_pod(objects, named[0], used) if used.pod else ""


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
    if (
        manifest.kind not in _REFERRING
        or objects.is_patched(manifest)
        or "uid" in manifest.metadata
    ):
        return
    for field, found in _references(manifest.content, ""):
        name, namespace = (
            str(found.get("name") or ""),
            str(found.get("namespace") or manifest.namespace),
        )
        here = [each for each in objects.services if _is_in(each[0], namespace)]
        named = [each for each in here if each[0].name == name]
        if not named:
            near = {each.name for each, _ in here if is_misspelt(name, each.name)}
            if name and len(near) == 1:
                edit = manifest.replaced(f"{field}.name", *near)
                sentence = f'there is no Service {name}; did you mean "{near.pop()}"?'
                yield manifest.remark(f"{field}.name", sentence, edit=edit)
            continue
        yield from _port(objects, manifest, field, found, named)


def _port(
    objects: Objects,
    manifest: Manifest,
    field: str,
    found: dict[str, Any],
    named: list[tuple[Manifest, Service]],
) -> Iterator[Remark]:
    port = found.get("port")
    step = next(
        (each for each in ("name", "number") if isinstance(port, dict) and each in port), ""
    )
    wanted = port[step] if isinstance(port, dict) and step else port
    ports = [each for _, service in named for each in service.spec.ports or ()]
    is_external = any(service.spec.type == "ExternalName" for _, service in named)
    if (
        objects.is_patched(*(each for each, _ in named))
        or wanted in (None, 0)
        or isinstance(wanted, dict)
        or is_external
        or not ports
    ):
        return
    if any(wanted in (each.name, each.port, str(each.port)) for each in ports):
        return
    has = ", ".join(f"{each.port} ({each.name})" if each.name else str(each.port) for each in ports)
    at = f"{field}.port.{step}" if step else f"{field}.port"
    near = [each.name for each in ports if each.name and is_misspelt(str(wanted), each.name)]
    edit = manifest.replaced(at, near[0]) if len(near) == 1 else None
    yield manifest.remark(at, f"{named[0][0]} has no port {wanted}; it has {has}", edit=edit)


def _references(value: Any, field: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """The mappings that refer to a Service, with their fields."""
    if isinstance(value, list):
        for at, each in enumerate(value):
            yield from _references(each, f"{field}[{at}]")
    for key, each in value.items() if isinstance(value, dict) else ():
        below = f"{field}.{key}".removeprefix(".")
        if key == "service" and isinstance(each, dict):
            yield below, each
        elif key in ("backendRefs", "services"):
            for at, one in mappings_at(value, key):
                if one.get("kind", "Service") == "Service":
                    yield f"{below}[{at}]", one
        else:
            yield from _references(each, below)
