"""Told once, counted each time."""

from __future__ import annotations

import pytest

from hsdns.cluster.complaints import Complaints, Reason, shown
from hsdns.metrics import Registry

WEB = ("EndpointSlice", "ns", "web")


def read(complaints: Complaints, name: str = "web", *reasons: Reason) -> None:
    """Read an object with these faults."""
    for reason in reasons:
        complaints.add(reason, f"bad {reason}")
    complaints.settle("EndpointSlice", "ns", name)


def counted(metrics: Registry) -> dict[tuple[str, ...], float]:
    """What was counted, by kind and reason."""
    counter = metrics.counter("hsdns_kubernetes_rejected_total", "", ("kind", "reason"))
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
def test_each_reason_is_told_once_and_counted_at_each_reading(
    readings: list[list[Reason]], told: list[str]
) -> None:
    said: list[str] = []
    metrics = Registry()
    complaints = Complaints(said.append)
    complaints.count_in(metrics)
    for reasons in readings:
        read(complaints, "web", *reasons)
    assert said == [f"EndpointSlice ns/web: bad {reason}" for reason in told]
    assert sum(counted(metrics).values()) == sum(len(set(reasons)) for reasons in readings)
    assert complaints.wanted is bool(readings[-1])


def test_it_counts_by_kind_and_reason() -> None:
    metrics = Registry()
    complaints = Complaints(lambda sentence: None)
    complaints.count_in(metrics)
    read(complaints, "web", "address")
    read(complaints, "db", "address")
    complaints.reject("Service", "ns", "x", "form", "ports is no list")
    assert counted(metrics) == {("EndpointSlice", "address"): 2, ("Service", "form"): 1}


def test_what_is_gone_is_forgotten() -> None:
    said: list[str] = []
    complaints = Complaints(said.append)
    read(complaints, "web", "address")
    complaints.add("name", "something of an object that is deleted")
    complaints.forget(*WEB)
    assert (len(complaints), complaints.wanted) == (0, False)
    read(complaints, "web", "address")
    assert len(said) == 2


def test_memory_is_bounded_and_that_is_told_once() -> None:
    said: list[str] = []
    metrics = Registry()
    complaints = Complaints(said.append, most=2)
    complaints.count_in(metrics)
    for number in range(10):
        read(complaints, f"web-{number}", "address")
    read(complaints, "web-0", "address", "hostname")
    assert len(complaints) == 2
    assert [sentence.partition(":")[0] for sentence in said] == [
        "EndpointSlice ns/web-0",
        "EndpointSlice ns/web-1",
        "more than 2 objects break the rules; what is wrong with further ones is counted in "
        "hsdns_kubernetes_rejected_total and not told",
        "EndpointSlice ns/web-0",
    ]
    assert counted(metrics) == {("EndpointSlice", "address"): 11, ("EndpointSlice", "hostname"): 1}
    complaints.forget("EndpointSlice", "ns", "web-0")
    read(complaints, "web-9", "address")
    assert said[-1] == "EndpointSlice ns/web-9: bad address"


def test_a_source_rejects_what_never_came_to_the_store() -> None:
    said: list[str] = []
    complaints = Complaints(said.append)
    for _ in range(3):
        complaints.reject("Service", "ns", "web", "form", "expected a list")
    complaints.reject("Namespace", "", "shop", "form", "expected text")
    assert said == ["Service ns/web: expected a list", "Namespace shop: expected text"]
    complaints.settle("Service", "ns", "web")
    assert len(complaints) == 1


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("web", '"web"'),
        ("", '""'),
        ("a\0b\nc", '"a\\x00b\\nc"'),
        ("\u202e\ud800", '"\\u202e\\ud800"'),
        ("ü" * 300, '"' + "ü" * 80 + '..." (300 characters)'),
    ],
    ids=["plain", "empty", "control", "hidden", "long"],
)
def test_shown(text: str, sentence: str) -> None:
    assert shown(text) == sentence
