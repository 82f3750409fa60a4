"""Which objects have a mesh, and what istioctl says of it."""

from __future__ import annotations

import pytest

from hsdns.rules.judging import read_files
from hsdns.rules.mesh import has_mesh, read_analysis

OBJECT = "apiVersion: %s\nkind: %s\nmetadata: {name: %s, labels: {%s}}\n"


@pytest.mark.parametrize(
    ("words", "is_mesh"),
    [
        (("networking.istio.io/v1", "Gateway", "web", ""), True),
        (("gateway.networking.k8s.io/v1", "Gateway", "web", ""), False),
        (("apiextensions.k8s.io/v1", "CustomResourceDefinition", "gateways.networking.istio.io", ""), True),
        (("apiextensions.k8s.io/v1", "CustomResourceDefinition", "istio.io.example.com", ""), False),
        (("apps/v1", "Deployment", "istiod", ""), True),
        (("apps/v1", "Deployment", "istiod-1-24", "app: istiod"), True),
        (("apps/v1", "Deployment", "istio-docs", "app: docs"), False),
        (("v1", "Namespace", "shop", "istio-injection: enabled"), True),
        (("v1", "Namespace", "shop", "istio-injection: disabled"), False),
        (("v1", "Namespace", "shop", "istio.io/rev: canary"), True),
        (("v1", "Namespace", "shop", "istio.io/dataplane-mode: ambient"), True),
        (("v1", "Namespace", "istio-system", ""), False),
        (("v1", "Pod", "web", 'sidecar.istio.io/inject: "true"'), True),
        (("v1", "Pod", "web", 'sidecar.istio.io/inject: "false"'), False),
    ],
)  # fmt: skip
def test_mesh(words: tuple[str, str, str, str], is_mesh: bool) -> None:
    assert has_mesh(read_files([("a.yaml", (OBJECT % words).encode())]).objects) is is_mesh


def test_images_say_nothing() -> None:
    image = (
        OBJECT % ("v1", "Pod", "web", "")
        + "spec: {containers: [{name: istio-proxy, image: istio/proxyv2}]}\n"
    )
    assert not has_mesh(read_files([("a.yaml", image.encode())]).objects)


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ('[{"code": "IST0101", "level": "Error", "message": "a\\n b", "origin": "Pod a.b", "reference": "a.yaml:7"}]', ["a.yaml:7: error IST0101 Pod a.b: a b"]),
        ('[{"code": "IST0101", "level": "Info", "message": "a", "reference": "no/line"}, 7]', ["note IST0101 a"]),
        ('[{"code": "IST0101", "level": "New", "message": "a", "reference": "-:3"}]', ["in:3: note IST0101 a"]),
        ("null", []),
    ],
)  # fmt: skip
def test_messages(text: str, lines: list[str]) -> None:
    assert [str(each) for each in read_analysis(text.encode(), {"-": "in"})] == lines


@pytest.mark.parametrize("text", ["", "{}", "all is well"])
def test_what_is_no_list_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"list|Expecting"):
        read_analysis(text.encode(), {})
