"""What of an object is recorded."""

from __future__ import annotations

import pytest
from msgspec import structs

from hsdns.cluster.objects import Namespace, Object, ObjectMeta, Pod, PodStatus
from hsdns.cluster.programming import CHANGE_TIME
from hsdns.recording.entry import reduced
from tests.support.cluster.objects import endpoint_slice, service

LABELS = {"app": "web", "kubernetes.io/service-name": "web", "multicluster.kubernetes.io/service-name": "w"}  # fmt: skip
META = ObjectMeta(
    "web", "shop", "7", "3f2c", LABELS, {CHANGE_TIME: "2026-01-01T00:00:00Z", "note": "secret"}, "now"
)  # fmt: skip
OWNERS = {name: text for name, text in LABELS.items() if name != "app"}


@pytest.mark.parametrize(
    ("found", "labels", "annotations"),
    [
        (service("shop/web", "10.96.7.7"), None, None),
        (Namespace(META), None, None),
        (Pod(META, PodStatus("10.0.0.1")), LABELS, None),
        (endpoint_slice("shop/web-1", "web", "10.0.0.1"), OWNERS, {CHANGE_TIME: "2026-01-01T00:00:00Z"}),
    ],
)  # fmt: skip
def test_metadata(
    found: Object, labels: dict[str, str] | None, annotations: dict[str, str] | None
) -> None:
    given = structs.replace(found, metadata=META)
    expected = ObjectMeta("web", "shop", "7", "", labels, annotations, "now")
    assert reduced(given) == structs.replace(found, metadata=expected)


def test_a_slice_without_an_owner() -> None:
    found = endpoint_slice("shop/web-1", "web", "10.0.0.1")
    bare = structs.replace(found, metadata=ObjectMeta("web-1", "shop", "1"))
    assert reduced(bare) == bare
