"""Why an endpoint is not ready."""

from __future__ import annotations

import pytest

from hsdns.cluster.not_ready import pod_of, why_not_ready
from hsdns.cluster.objects import (
    Endpoint,
    EndpointConditions,
    ObjectMeta,
    ObjectReference,
    Pod,
    PodCondition,
    PodStatus,
)

POD = Pod(
    ObjectMeta("db-0"),
    PodStatus(
        conditions=[
            PodCondition("Ready", "False", "ContainersNotReady"),
            PodCondition("X", "False"),
        ]
    ),
)
REF = ObjectReference("Pod", "db-0")


@pytest.mark.parametrize(
    ("endpoint", "why"),
    [
        (Endpoint(target_ref=REF), "pod condition Ready is False: ContainersNotReady"),
        (
            Endpoint(target_ref=REF, conditions=EndpointConditions(terminating=True)),
            "terminating; pod condition Ready is False: ContainersNotReady",
        ),
        (Endpoint(target_ref=ObjectReference("Pod", "db-1")), ""),
        (Endpoint(), ""),
    ],
)
def test_reasons(endpoint: Endpoint, why: str) -> None:
    assert why_not_ready(endpoint, [POD]) == why


def test_the_pod_of_an_endpoint() -> None:
    assert pod_of(Endpoint(target_ref=REF), [POD]) is POD
    assert pod_of(Endpoint(), [POD]) is None
