"""API objects as kubectl prints them, nulls and unknown fields included."""

import msgspec
import pytest

from hsdns.cluster.objects import EndpointSlice, Namespace, Object, Pod, Service


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
