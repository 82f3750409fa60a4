"""One pod of an API server in memory: what is requested, what it says, and why it is not there."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import pytest

from hsdns.apiserver.transport import Refusal
from hsdns.cluster.pod_reading import PodReading, PodUnreadable
from hsdns.sources.api_server import read_pod
from tests.sources.test_api_reading import cluster, manifest
from tests.support.apiserver.memory_api import SERVER, MemoryAnswer, MemoryApi


def api(**fields: Any) -> MemoryApi:
    """A cluster with shop/db-0 and shop/web-0, of which the first has these fields."""
    found = MemoryApi(cluster())
    found.cluster.apply(manifest("Pod", "shop/db-0", **fields))
    return found


def read(of: MemoryApi, name: str = "db-0", seconds: float = 1.0) -> PodReading:
    return asyncio.run(read_pod(of, "shop", name, seconds))


def test_a_pod() -> None:
    found = api(
        spec={"dnsPolicy": "None", "hostNetwork": True, "dnsConfig": {"nameservers": ["192.0.2.1"]}},
        status={"phase": "Running", "podIPs": [{"ip": "10.0.0.1"}, {"ip": "fd00::1"}]},
    )  # fmt: skip
    spec, addresses, denied = read(found)
    assert (spec.dns_policy, spec.host_network, addresses, denied) == (
        "None",
        True,
        ("10.0.0.1", "fd00::1"),
        None,
    )
    assert found.cluster.requests == [
        "/api/v1/namespaces/shop/pods?limit=1&fieldSelector=metadata.name=db-0"
    ]


def test_one_that_has_ended_and_one_that_waits_for_an_address() -> None:
    assert read(api(status={"phase": "Succeeded"})).addresses == ()
    assert read(api(status={"phase": "Pending", "podIP": None})).addresses == ()


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("db-1", 'the cluster has no pod shop/db-1; did you mean "shop/db-0"?'),
        ("zookeeper", "the cluster has no pod shop/zookeeper"),
        ("../x", '"shop/../x" is not the name of a namespace and of a pod'),
    ],
)
def test_one_that_is_not_there(name: str, sentence: str) -> None:
    with pytest.raises(PodUnreadable) as raised:
        read(api(), name)
    assert str(raised.value) == sentence


def test_one_that_may_not_be_read() -> None:
    found = api()
    found.cluster.revoke("pods")
    with pytest.raises(PodUnreadable) as raised:
        read(found)
    assert str(raised.value).startswith("pods may not be read: pods is forbidden: User ")
    assert str(raised.value).endswith("(403)")


def test_one_that_is_malformed() -> None:
    with pytest.raises(
        PodUnreadable, match=r"^the pod shop/db-0 could not be read: Expected `bool"
    ):
        read(api(spec={"hostNetwork": "yes"}))


class SilentApi(MemoryApi):
    """Answers nothing."""

    @asynccontextmanager
    async def get(
        self, path: str, query: Mapping[str, str], accept: str = ""
    ) -> AsyncGenerator[MemoryAnswer | Refusal]:
        await asyncio.Event().wait()
        async with super().get(path, query, accept) as found:
            yield found


def test_a_server_that_does_not_answer() -> None:
    with pytest.raises(PodUnreadable) as raised:
        read(SilentApi(cluster()), seconds=0.01)
    assert str(raised.value) == f"pods could not be read: {SERVER} did not answer within 0.01 s"
