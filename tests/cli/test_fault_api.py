"""The API of a scenario's own cluster, asked as a DNS server asks it."""

from __future__ import annotations

import json
import threading
from urllib.request import urlopen

import pytest

from hsdns.cli.fault_run import OwnApi
from hsdns.fault_scenarios.scenario import ScenarioError, Step, load

SERVICES = "/api/v1/services"
SLICES = "/apis/discovery.k8s.io/v1/endpointslices"


def listed(api: OwnApi, path: str) -> list[str]:
    with urlopen(f"{api.url}{path}") as answer:
        items = json.loads(answer.read())["items"]
    return sorted(f"{each['metadata']['namespace']}/{each['metadata']['name']}" for each in items)


@pytest.mark.sockets
def test_its_objects_are_those_that_controllers_make() -> None:
    scenario, before = load("slices-forbidden"), set(threading.enumerate())
    api = OwnApi()
    try:
        api.change(Step(apply=scenario.manifests))
        assert (listed(api, SERVICES), listed(api, SLICES)) == (["shop/db", "shop/web"], [])
        api.change(next(step for step in scenario.steps if step.apply))
        (name,) = listed(api, SLICES)
        assert name.startswith("shop/db")
        api.change(Step(delete=("StatefulSet shop/db", "Service shop/web")))
        assert listed(api, SERVICES) == ["shop/db"]
        with pytest.raises(
            ScenarioError, match="there is no Service shop/web that could be deleted"
        ):
            api.change(Step(delete=("Service shop/web",)))
    finally:
        api.stop()
    assert set(threading.enumerate()) <= before  # other tests leave some that end meanwhile
