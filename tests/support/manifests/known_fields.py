"""The Kubernetes objects of deploy/, field by field: an API server with strict validation refuses a field that it does not know.

Path: tests/deploy -> check() -> the models of the package kubernetes_asyncio, which are made from the API's description.
Rule: custom resources have no model, so only their names are read; a workload must select its pods and have its volumes.
"""

from __future__ import annotations

import re
from typing import Any, Final

CLUSTER_WIDE: Final = ("ClusterRole", "ClusterRoleBinding", "Namespace")
CUSTOM: Final = ("PrometheusRule", "ServiceMonitor")
_TYPES: Final[dict[str, type[Any]]] = {"str": str, "int": int, "bool": bool}


def check(manifest: dict[str, Any]) -> None:
    """Fail with the path of what an API server would refuse."""
    kind, metadata = manifest["kind"], manifest["metadata"]
    assert ("namespace" in metadata) != (kind in CLUSTER_WIDE), metadata
    if kind in CUSTOM:
        return
    version = manifest["apiVersion"].rpartition("/")[2]
    _check(f"{version[0].upper()}{version[1:]}{kind}", manifest, kind)
    spec = manifest.get("spec", {})
    spec = spec["jobTemplate"]["spec"] if kind == "CronJob" else spec
    if "template" in spec:
        labels = spec["template"]["metadata"].get("labels", {}) if "selector" in spec else {}
        assert spec.get("selector", {}).get("matchLabels", {}).items() <= labels.items()
        pod = spec["template"]["spec"]
        volumes = {each["name"] for each in pod.get("volumes", [])}
        for container in [*pod.get("initContainers", []), *pod["containers"]]:
            assert {each["name"] for each in container.get("volumeMounts", [])} <= volumes


def _check(kind: str, value: Any, path: str) -> None:
    from kubernetes_asyncio.client import models  # noqa: PLC0415 - takes long, and few tests need it

    if listed := re.fullmatch(r"list\[(.+)\]", kind):
        assert isinstance(value, list), path
        for number, each in enumerate(value):
            _check(listed[1], each, f"{path}[{number}]")
    elif kept := re.fullmatch(r"dict[(\[]str, (.+)[)\]]", kind):
        assert isinstance(value, dict), path
        for name, each in value.items():
            _check(kept[1], each, f"{path}.{name}")
    elif kind in _TYPES:
        assert type(value) is _TYPES[kind], path
    elif hasattr(models, kind):
        model = getattr(models, kind)
        types = {name: model.openapi_types[field] for field, name in model.attribute_map.items()}
        for name, each in value.items():
            assert name in types, f"{path}.{name}"
            _check(types[name], each, f"{path}.{name}")
