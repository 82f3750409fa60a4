from __future__ import annotations

import copy
from typing import Any

import msgspec
import pytest

from tests.support.manifests.object_schema import check

DEPLOYMENT: dict[str, Any] = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "web", "namespace": "shop"},
    "spec": {
        "selector": {"matchLabels": {"app": "web"}},
        "template": {
            "metadata": {"labels": {"app": "web"}},
            "spec": {"containers": [{"name": "web", "image": "hsdns/hsdns:1"}]},
        },
    },
}


def test_a_good_one() -> None:
    assert check(DEPLOYMENT).spec.template.spec.containers[0].image == "hsdns/hsdns:1"


@pytest.mark.parametrize(
    ("path", "value"),
    [
        pytest.param("apiVersion", "apps/v2", id="version"),
        pytest.param("metadata", {"name": "web"}, id="namespace"),
        pytest.param("spec.replica", 2, id="unknown-field"),
        pytest.param("spec.template.metadata.labels", {"app": "other"}, id="selector"),
        pytest.param("spec.template.spec.containers", [], id="no-container"),
        pytest.param(
            "spec.template.spec.containers",
            [{"name": "a", "image": "a.example.org/a:1"}],
            id="registry",
        ),
        pytest.param(
            "spec.template.spec.containers",
            [{"name": "a", "image": "a:1", "volumeMounts": [{"name": "v", "mountPath": "/v"}]}],
            id="no-such-volume",
        ),
    ],
)
def test_a_bad_one(path: str, value: Any) -> None:
    manifest = copy.deepcopy(DEPLOYMENT)
    *above, last = path.split(".")
    place = manifest
    for name in above:
        place = place[name]
    place[last] = value
    with pytest.raises((AssertionError, msgspec.ValidationError)):
        check(manifest)
