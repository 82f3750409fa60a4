"""Each fault of an object is logged once and counted at every reading."""

from __future__ import annotations

from hsdns.cluster.pack import Reason, RejectedObjects
from hsdns.metrics import Registry

WEB = ("ns", "web")


def read(rejected: RejectedObjects, name: str = "web", *reasons: Reason) -> None:
    """Read an object with these faults."""
    for reason in reasons:
        rejected.add(reason, f"bad {reason}")
    rejected.finish("EndpointSlice", ("ns", name), gone=False)


def counted(metrics: Registry) -> dict[tuple[str, ...], float]:
    """What was counted, by kind and reason."""
    counter = metrics.counter("hsdns_kubernetes_rejected_total", ("kind", "reason"))
    return dict(counter.values)


def test_memory_is_bounded_and_that_is_logged_once() -> None:
    said: list[str] = []
    metrics = Registry()
    rejected = RejectedObjects(said.append, metrics, most=2)
    for number in range(10):
        read(rejected, f"web-{number}", "address")
    read(rejected, "web-0", "address", "hostname")
    assert len(rejected._known) == 2
    assert [sentence.partition(":")[0] for sentence in said] == [
        "EndpointSlice ns/web-0",
        "EndpointSlice ns/web-1",
        "more than 2 objects are invalid; further ones are counted in "
        "hsdns_kubernetes_rejected_total but not logged",
        "EndpointSlice ns/web-0",
    ]
    assert counted(metrics) == {("EndpointSlice", "address"): 11, ("EndpointSlice", "hostname"): 1}
    rejected.finish("EndpointSlice", ("ns", "web-0"), gone=True)
    read(rejected, "web-9", "address")
    assert said[-1] == "EndpointSlice ns/web-9: bad address"
    assert rejected.is_pending
    for name in ("web-1", "web-9"):
        rejected.finish("EndpointSlice", ("ns", name), gone=True)
    assert not rejected.is_pending


def test_a_source_rejects_what_it_cannot_deliver() -> None:
    said: list[str] = []
    rejected = RejectedObjects(said.append)
    for _ in range(3):
        rejected.reject("Service", "ns", "web", "form", "expected a list")
    rejected.reject("Namespace", "", "shop", "form", "expected text")
    assert said == ["Service ns/web: expected a list", "Namespace shop: expected text"]
    rejected.finish("Service", WEB, gone=False)
    assert len(rejected._known) == 1
