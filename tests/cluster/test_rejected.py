"""Each fault of an object is logged once and counted at every reading."""

from __future__ import annotations

import pytest

from hsdns.cluster.pack import Reason, RejectedObjects, quoted
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


@pytest.mark.parametrize(
    ("readings", "told"),
    [
        pytest.param([["address"]], ["address"], id="one"),
        pytest.param([["address"], ["address"], ["address"]], ["address"], id="stays-wrong"),
        pytest.param([["address", "address"]], ["address"], id="two-of-a-kind"),
        pytest.param([["address"], ["address", "hostname"]], ["address", "hostname"], id="another-one"),
        pytest.param([["address"], [], ["address"]], ["address", "address"], id="right-and-wrong-again"),
        pytest.param([["address"], ["hostname"], ["address"]], ["address", "hostname", "address"], id="changing"),
        pytest.param([[]], [], id="good"),
    ],
)  # fmt: skip
def test_each_reason_is_logged_once_and_counted_at_every_reading(
    readings: list[list[Reason]], told: list[str]
) -> None:
    said: list[str] = []
    metrics = Registry()
    rejected = RejectedObjects(said.append, metrics)
    for reasons in readings:
        read(rejected, "web", *reasons)
    assert said == [f"EndpointSlice ns/web: bad {reason}" for reason in told]
    assert sum(counted(metrics).values()) == sum(len(set(reasons)) for reasons in readings)
    assert len(rejected._known) == bool(readings[-1])


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


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("web", '"web"'),
        ("", '""'),
        ("a\0b\nc", '"a\\u0000b\\nc"'),
        ("\u202e\ud800", '"\\u202e\\ud800"'),
        ("ü" * 300, '"' + "ü" * 80 + '..." (300 characters)'),
    ],
    ids=["plain", "empty", "control", "hidden", "long"],
)
def test_quoted(text: str, sentence: str) -> None:
    assert quoted(text) == sentence
