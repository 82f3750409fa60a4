"""Which media type is asked for, and which one a response has."""

import pytest

from hsdns.apiserver.resource import SERVICE_IMPORTS, SERVICES, Resource, accepted, is_protobuf


@pytest.mark.parametrize(
    ("resource", "is_compiled", "accept"),
    [
        (SERVICES, True, "application/vnd.kubernetes.protobuf, application/json"),
        (SERVICES, False, "application/json"),
        (SERVICE_IMPORTS, True, "application/json"),
    ],
)
def test_accepted(resource: Resource, is_compiled: bool, accept: str) -> None:
    assert accepted(resource, is_compiled=is_compiled) == accept


@pytest.mark.parametrize(
    ("content_type", "found"),
    [
        ("application/vnd.kubernetes.protobuf;stream=watch", True),
        ("application/vnd.kubernetes.protobuf", True),
        ("application/json", False),
        ("", False),
    ],
)
def test_is_protobuf(content_type: str, found: bool) -> None:
    assert is_protobuf(content_type) is found
