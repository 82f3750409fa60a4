import pytest

from hsdns.cluster.objects import (
    Deleted,
    EndpointSlice,
    Event,
    Namespace,
    Service,
    Synced,
    Upserted,
)
from hsdns.testing.errors import ClusterError
from hsdns.testing.objects import Objects

WEB = """\
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {clusterIP: None, ports: [{port: 80}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: web-1, labels: {kubernetes.io/service-name: web}}
addressType: IPv4
endpoints: [{addresses: [10.0.0.1]}, {addresses: [10.0.0.2]}]
ports: [{port: 80}]
"""


@pytest.fixture
def objects() -> Objects:
    made = Objects()
    made.apply_text(WEB)
    made.take_events()
    return made


def shown(events: list[Event]) -> list[tuple[type, type]]:
    return [(type(event), type(event.object)) for event in events if not isinstance(event, Synced)]


def test_what_is_new_is_delivered_once() -> None:
    objects = Objects()
    objects.apply_text(WEB)
    assert shown(objects.take_events()) == [
        (Upserted, Namespace),
        (Upserted, Service),
        (Upserted, EndpointSlice),
    ]
    objects.apply_text(WEB)
    assert objects.take_events() == []


def test_only_what_changes_is_delivered(objects: Objects) -> None:
    objects.set_endpoint_ready(("default", "web", "10.0.0.1"), False)
    (event,) = objects.take_events()
    assert isinstance(event, Upserted)
    assert isinstance(event.object, EndpointSlice)
    ready = [each.conditions and each.conditions.ready for each in event.object.endpoints or ()]
    assert ready == [False, None]
    version = event.object.metadata.resource_version
    objects.set_endpoint_ready(("default", "web", "10.0.0.1"), True)
    (event,) = objects.take_events()
    assert isinstance(event, Upserted)
    assert event.object.metadata.resource_version != version


def test_a_service_goes_with_its_slices(objects: Objects) -> None:
    objects.remove("Service", "default", "web")
    assert shown(objects.take_events()) == [(Deleted, Namespace), (Deleted, Service), (Deleted, EndpointSlice)]  # fmt: skip


def test_readiness_goes_with_its_endpoint(objects: Objects) -> None:
    objects.set_endpoint_ready(("default", "web", "10.0.0.1"), False)
    objects.take_events()
    objects.remove("EndpointSlice", "default", "web-1")
    objects.take_events()
    objects.apply_text(WEB)
    objects.take_events()
    conditions = [each.conditions for _, each in objects.endpoints("default", "web")]
    assert [each and each.ready for each in conditions] == [None, None]


def test_state_can_be_restored(objects: Objects) -> None:
    state = objects.state()
    objects.apply_text(WEB.replace("web", "api"))
    objects.remove("Service", "default", "web")
    objects.set_pod_ready(("default", "one"), False)
    objects.set_endpoint_ready(("default", "web", "10.0.0.1"), False)
    objects.restore(state)
    assert objects.take_events() == []


def test_all_errors_are_told() -> None:
    objects, warned = Objects(), list[str]()
    with pytest.raises(ClusterError) as raised:
        objects.apply_text(WEB.replace("10.0.0.", "10.0.0.0.").replace("name: web}", "name: Web}"))
    assert [line.split(": ")[0] for line in str(raised.value).splitlines()] == ["manifest:3", "manifest:10"]  # fmt: skip
    assert objects.take_events() == []
    Objects(warned.append).apply_text(WEB.replace("clusterIP: None", "clusterIp: None"))
    assert len(warned) == 1, warned
