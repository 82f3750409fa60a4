import pytest

from hsdns.apiserver.resource import (
    ENDPOINT_SLICES,
    NAMESPACES,
    PODS,
    SERVICE_IMPORTS,
    SERVICES,
    Scope,
)

ENDED = "status.phase!=Succeeded,status.phase!=Failed,status.phase!=Unknown"


@pytest.mark.parametrize(
    ("scope", "path", "query", "text"),
    [
        pytest.param(Scope(SERVICES), "/api/v1/services", {}, "services", id="services"),
        pytest.param(
            Scope(ENDPOINT_SLICES, "shop", "app=web"),
            "/apis/discovery.k8s.io/v1/namespaces/shop/endpointslices",
            {"labelSelector": "app=web"},
            "endpointslices in shop",
            id="slices of one namespace",
        ),
        pytest.param(
            Scope(PODS), "/api/v1/pods", {"fieldSelector": ENDED}, "pods", id="pods that have not ended"
        ),
        pytest.param(
            Scope(NAMESPACES, labels="dns=yes"),
            "/api/v1/namespaces",
            {"labelSelector": "dns=yes"},
            "namespaces",
            id="namespaces by label",
        ),
        pytest.param(
            Scope(NAMESPACES, "shop"),
            "/api/v1/namespaces",
            {"fieldSelector": "metadata.name=shop"},
            "namespaces in shop",
            id="one namespace by its name",
        ),
        pytest.param(
            Scope(SERVICE_IMPORTS, "shop"),
            "/apis/multicluster.x-k8s.io/v1alpha1/namespaces/shop/serviceimports",
            {},
            "serviceimports in shop",
            id="service imports",
        ),
    ],
)  # fmt: skip
def test_scope(scope: Scope, path: str, query: dict[str, str], text: str) -> None:
    assert (scope.path, scope.query, str(scope)) == (path, query, text)
