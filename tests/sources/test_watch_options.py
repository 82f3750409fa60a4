"""What is watched for one block, and for two over the same API server."""

import pytest

from hsdns.sources.api_access import WatchOptions


@pytest.mark.parametrize(
    ("options", "scopes"),
    [
        pytest.param(WatchOptions(), ["services", "endpointslices", "namespaces"], id="most"),
        pytest.param(WatchOptions(endpoints=False), ["services", "namespaces"], id="noendpoints"),
        pytest.param(WatchOptions(pods=True), ["services", "endpointslices", "namespaces", "pods"], id="pods"),
        pytest.param(WatchOptions(imports=True, endpoints=False), ["services", "endpointslices", "namespaces", "serviceimports"], id="imports"),
    ],
)  # fmt: skip
def test_scopes(options: WatchOptions, scopes: list[str]) -> None:
    assert [str(scope) for scope in options.scopes] == scopes


@pytest.mark.parametrize(
    ("one", "other", "both"),
    [
        pytest.param(WatchOptions(("a",)), WatchOptions(("b", "a")), WatchOptions(("a", "b")), id="namespaces"),
        pytest.param(WatchOptions(("a",)), WatchOptions(), WatchOptions(), id="all"),
        pytest.param(WatchOptions(labels="x=y"), WatchOptions(labels="x=y"), WatchOptions(labels="x=y"), id="labels"),
        pytest.param(WatchOptions(labels="x=y"), WatchOptions(labels="z"), WatchOptions(), id="other-labels"),
        pytest.param(WatchOptions(endpoints=False), WatchOptions(pods=True), WatchOptions(pods=True), id="more"),
    ],
)  # fmt: skip
def test_union(one: WatchOptions, other: WatchOptions, both: WatchOptions) -> None:
    assert one.union(other) == other.union(one) == both
