"""Which API server a block uses."""

from __future__ import annotations

from pathlib import Path

import pytest

from hsdns.apiserver.client import ApiClient
from hsdns.sources.api_access import ApiAccess, ConnectionOptions
from tests.support.plugins.runtime import FakeRuntime

IN_CLUSTER = {"KUBERNETES_SERVICE_HOST": "10.96.0.1", "KUBERNETES_SERVICE_PORT": "443"}


@pytest.mark.parametrize(
    ("words", "in_cluster", "server"),
    [
        pytest.param(ConnectionOptions(), True, "https://10.96.0.1:443", id="nothing said: the pod's own cluster"),
        pytest.param(ConnectionOptions(endpoint=("http://192.0.2.1:8080",)), False, "http://192.0.2.1:8080", id="endpoint"),
        pytest.param(ConnectionOptions(endpoint=("192.0.2.1",), tls=("c", "k", "a")), False, "https://192.0.2.1", id="endpoint with tls"),
        pytest.param(ConnectionOptions(kubeconfig=("conf",)), False, "the API server of kubeconfig conf", id="kubeconfig"),
        pytest.param(ConnectionOptions(("conf", "lab"), ("192.0.2.1",)), False, "the API server of kubeconfig conf", id="kubeconfig counts more"),
    ],
)  # fmt: skip
async def test_which_server_the_options_select(
    words: ConnectionOptions, in_cluster: bool, server: str, tmp_path: Path
) -> None:
    access = ApiAccess(words, IN_CLUSTER, str(tmp_path))
    assert access.is_in_cluster is in_cluster

    transport = access(FakeRuntime(), lambda level, message: None)
    assert isinstance(transport, ApiClient)
    assert transport.server == server
    await transport.close()
