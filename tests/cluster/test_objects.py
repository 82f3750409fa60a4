"""API objects as kubectl prints them, nulls and unknown fields included."""

import msgspec
import pytest

from hsdns.cluster.objects import EndpointSlice, Namespace, Object, Pod, Service

SLICE = b"""{"apiVersion":"discovery.k8s.io/v1","kind":"EndpointSlice","addressType":"IPv4",
"metadata":{"name":"web-1","namespace":"ns","resourceVersion":"7","labels":{"kubernetes.io/service-name":"web"},
"managedFields":[{"manager":"x"}]},
"endpoints":[{"addresses":["10.0.0.1"],"conditions":{"ready":true,"serving":null},"hostname":"a","zone":"z",
"targetRef":{"kind":"Pod","name":"p"},"nodeName":"n"}],"ports":[{"name":"","port":80,"protocol":"TCP"},{"port":null}]}"""


def test_a_slice_is_read_with_its_own_spelling() -> None:
    found = msgspec.json.decode(SLICE, type=EndpointSlice)
    assert found.metadata.resource_version == "7"
    assert found.endpoints is not None
    assert found.endpoints[0].conditions is not None
    assert found.endpoints[0].conditions.serving is None
    assert found.endpoints[0].target_ref is not None
    assert found.endpoints[0].target_ref.name == "p"
    assert found.ports is not None
    assert [port.port for port in found.ports] == [80, None]


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (EndpointSlice, b'{"metadata":{"name":"a"},"endpoints":null,"ports":null}'),
        (
            Service,
            b'{"metadata":{"name":"a","labels":null},"spec":{"clusterIPs":null,"ports":null,"selector":null}}',
        ),
        (Service, b'{"metadata":{"name":"a"}}'),
        (Namespace, b'{"metadata":{"name":"a"},"spec":{"finalizers":["kubernetes"]}}'),
        (Pod, b'{"metadata":{"name":"a"},"status":{"podIP":null,"podIPs":[{"ip":"1.2.3.4"}]}}'),
    ],
)
def test_null_and_absent_fields_are_legal(kind: type[Object], text: bytes) -> None:
    assert msgspec.json.decode(text, type=kind).metadata.name == "a"
