"""Applications of any form: nothing is found in them, and each mistake of the kinds that people make is."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.manifests.broken import KINDS, Documents, Kind, broken, findings, text

NAMES = (
    "web api checkout orders payments redis-cache postgres frontend search-indexer worker".split()
)
HELM = "app.kubernetes.io/"
STYLES: dict[str, dict[str, str]] = {
    "app": {"app": "{name}"},
    "tier": {"app": "{part}", "tier": "{name}"},
    "release": {"app": "{name}", "release": "{part}"},
    "helm": {f"{HELM}name": "{name}", f"{HELM}instance": "{part}"},
    "component": {
        f"{HELM}name": "{part}",
        f"{HELM}instance": "{part}",
        f"{HELM}component": "{name}",
    },
}


@st.composite
def applications(draw: st.DrawFn) -> Documents:
    """Workloads in a namespace, each with a Service, and some with a headless one."""
    prefix, style = draw(st.sampled_from(("", "lab-"))), draw(st.sampled_from(sorted(STYLES)))
    suffix, has_labels = draw(st.sampled_from(("", "-deployment", "-sts"))), draw(st.booleans())
    place = {"namespace": "lab"} if draw(st.booleans()) else {}
    made: Documents = []
    for name in draw(st.lists(st.sampled_from(NAMES), min_size=1, max_size=5, unique=True)):
        labels = {key: value.format(name=name, part="lab") for key, value in STYLES[style].items()}
        named, number = draw(st.booleans()), draw(st.integers(1024, 1030))
        port = {
            "name": draw(st.sampled_from(("http", "grpc", "tcp-main"))),
            "containerPort": number,
        }
        kind = draw(st.sampled_from(("Deployment", "StatefulSet")))
        ports = [
            {"name": port["name"], "port": 80, "targetPort": port["name"] if named else number}
        ]
        template: dict[str, Any] = {
            "labels": labels | draw(st.sampled_from(({}, {"version": "v1"})))
        }
        containers = [{"name": "main", "image": "registry.example.org/a:1", "ports": [port]}]
        spec: dict[str, Any] = {
            "selector": {"matchLabels": labels},
            "template": {"metadata": template, "spec": {"containers": containers}},
        }
        if kind == "StatefulSet":
            spec["serviceName"] = draw(
                st.sampled_from((f"{prefix}{name}", f"{prefix}{name}-headless"))
            )
        services = dict.fromkeys((f"{prefix}{name}", spec.get("serviceName", f"{prefix}{name}")))
        meta = place | ({"labels": labels} if has_labels else {})
        made.append(
            {
                "apiVersion": "apps/v1",
                "kind": kind,
                "metadata": {"name": f"{prefix}{name}{suffix}", **meta},
                "spec": spec,
            }
        )
        for service in services:
            head = {"clusterIP": "None"} if service == spec.get("serviceName") else {}
            made.append(
                {
                    "apiVersion": "v1",
                    "kind": "Service",
                    "metadata": {"name": service, **meta},
                    "spec": {**head, "selector": dict(labels), "ports": ports},
                }
            )
    return made


@given(applications())
def test_nothing_is_found_in_what_is_right(made: Documents) -> None:
    assert findings(text(made)) == set()


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
@given(applications(), st.randoms(use_true_random=False))
def test_a_mistake_is_found(kind: Kind, made: Documents, random: Random) -> None:
    for service, changed in broken(made, kind, random, most=1):
        assert findings(text(changed)), f"{kind.__doc__} Service {service}"
