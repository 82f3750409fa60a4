"""Warnings about what is valid but surely not meant."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import msgspec
import pytest

from hsdns.cluster.controllers.kinds import KINDS, WorkloadSpec
from hsdns.sources.manifest_check import (
    FIELDS,
    VERSION,
    check_object,
    is_written_by_hand,
    unknown_fields,
)
from tests.support.apiserver.real_api import RealApi, missing_assets


@pytest.mark.parametrize(
    ("api_version", "kind"),
    [
        *(("v1", kind) for kind in (
            "Binding", "ComponentStatus", "ConfigMap", "Event", "LimitRange", "PersistentVolume", "PersistentVolumeClaim",
            "PodTemplate", "PodTemplateList", "ReplicationController", "ResourceQuota", "Secret", "ServiceAccount",
            "ServiceAccountList", "Status", "NodeList", "PodList", "NamespaceList", "Config", "Template",
        )),
        ("apps/v1", "ControllerRevision"), ("apps/v1", "StatefulSetList"), ("batch/v1", "CronJob"), ("batch/v1", "JobList"),
        ("multicluster.x-k8s.io/v1alpha1", "ServiceExport"), ("serving.knative.dev/v1", "Service"),
        ("example.org/v1", "Servcie"), ("kustomize.config.k8s.io/v1beta1", "Kustomization"), ("v1", "x" * 1_000_000),
    ],
)  # fmt: skip
def test_kinds_that_others_read(api_version: str, kind: str) -> None:
    assert list(check_object(kind, api_version, kind, None)) == []


def test_who_wrote_it() -> None:
    assert is_written_by_hand({"name": "a"})
    assert is_written_by_hand(None)
    assert not is_written_by_hand({"resourceVersion": "5"})


# The fields of the kinds that hsdns reads.


Definitions = dict[str, dict[str, Any]]
WORKLOADS: Final = ("StatefulSet", "Deployment", "ReplicaSet", "DaemonSet", "Job")
READ: Final = [(group, kind) for group, kind in KINDS if kind != "ServiceImport"]


@pytest.mark.parametrize(
    ("kind", "value", "found"),
    [
        pytest.param("Service", {"apiVersion": "v1", "kind": "Service", "metadata": {}, "spec": {}, "status": {}}, [], id="nothing unknown"),
        pytest.param("Service", {"specs": {}}, [("", "specs")], id="of the object"),
        pytest.param("Service", {"spec": {"selektor": {"app": "web"}, "selector": {"selektor": "a"}}}, [("spec", "selektor")], id="of the spec, but not of a map"),
        pytest.param("Service", {"spec": {"ports": [{"port": 80}, {"prot": 80, "nmae": "a"}]}}, [("spec.ports[1]", "prot"), ("spec.ports[1]", "nmae")], id="of an item"),
        pytest.param("Pod", {"spec": {"containers": [{"port": []}], "volumes": [{"anything": 1}]}}, [("spec.containers[0]", "port")], id="not inside of types that DNS does not use"),
        pytest.param("StatefulSet", {"spec": {"template": {"metadata": {"label": {}}}}}, [("spec.template.metadata", "label")], id="of a template"),
        pytest.param("Service", {"spec": [], "metadata": None}, [], id="other types"),
        pytest.param("Service", "text", [], id="no object"),
    ],
)  # fmt: skip
def test_unknown_fields(kind: str, value: object, found: list[tuple[str, str]]) -> None:
    assert [(each.parent, each.name) for each in unknown_fields(kind, value)] == found


def test_types_that_are_followed_are_listed() -> None:
    assert {inner for fields in FIELDS.values() for inner in fields.values() if inner} <= {*FIELDS}
    assert {kind for _, kind in READ} <= {*FIELDS}


@pytest.mark.parametrize(("group", "kind"), READ)
def test_what_is_decoded_is_checked(group: str, kind: str) -> None:
    """Each field that hsdns reads is in the table, with a type if it has fields of its own."""
    checked = []
    for path, name, struct, known in decoded(KINDS[group, kind], kind, ""):
        if struct is WorkloadSpec and name not in known:
            continue  # a field of another workload
        checked.append(f"{path}.{name}")
        assert name in known, path
    assert ".metadata" in checked
    if kind in WORKLOADS:
        assert ".spec.template.spec.containers.ports.containerPort" in checked


def decoded(struct: Any, listed: str, path: str) -> Iterator[tuple[str, str, Any, dict[str, str]]]:
    """Yield the fields of a struct and those below it, with the fields of the API's type."""
    known = FIELDS[listed]
    for field in msgspec.structs.fields(struct):
        name = field.encode_name
        yield path, name, struct, known
        for inner in structs_in(msgspec.inspect.type_info(field.type)):
            if name in known:
                assert known[name], f"{path}.{name} has fields, but its type is not listed"
                yield from decoded(inner, known[name], f"{path}.{name}")


def structs_in(info: msgspec.inspect.Type) -> Iterator[Any]:
    if isinstance(info, msgspec.inspect.StructType):
        yield info.cls
    elif isinstance(info, msgspec.inspect.ListType):
        yield from structs_in(info.item_type)
    elif isinstance(info, msgspec.inspect.UnionType):
        for each in info.types:
            yield from structs_in(each)


@pytest.mark.skipif(bool(missing_assets()), reason=missing_assets() or "there is an API server")
def test_every_field_of_an_api_server_is_known() -> None:
    """As long as its version is not newer than that of the table."""
    with RealApi() as api:
        status, found = api.ask("GET", "/openapi/v2")
        _, version = api.ask("GET", "/version")
    assert status == 200
    if int(version["minor"].rstrip("+")) <= int(VERSION.partition(".")[2]):
        assert not_listed(found["definitions"]) == []


def not_listed(definitions: Definitions) -> list[str]:
    """The fields of an OpenAPI document that the table lacks."""
    kinds = {
        (each["group"], each["kind"], each["version"]): name
        for name, definition in definitions.items()
        for each in definition.get("x-kubernetes-group-version-kind", ())
    }
    return [
        missing
        for group, kind in READ
        for missing in _not_listed(definitions, kinds[group, kind, "v1"], kind)
    ]


def _not_listed(definitions: Definitions, name: str, listed: str) -> Iterator[str]:
    for field, schema in definitions[name].get("properties", {}).items():
        inner = FIELDS[listed].get(field)
        if inner is None:
            yield f"{listed}.{field}"
        elif inner:
            target = (schema.get("items") or schema)["$ref"].rpartition("/")[2]
            yield from _not_listed(definitions, target, inner)
