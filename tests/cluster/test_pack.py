"""Packing objects into values, whatever they contain."""

import pytest

from hsdns.cluster.objects import Endpoint, EndpointSlice, ObjectMeta, Service, ServiceSpec
from hsdns.cluster.pack import (
    pack_key,
    pack_label,
    pack_service,
    pack_slice,
    pack_target,
    slice_owner,
)
from hsdns.cluster.value import CLUSTER_IP, EXTERNAL_NAME, HEADLESS, NO_PORT, Port, ServiceValue
from hsdns.wire.name import Name
from tests.support.cluster.objects import endpoint_slice, meta, service


class Rejected:
    """Records the reasons."""

    def __init__(self) -> None:
        self.reasons: list[str] = []

    def __call__(self, reason: str, sentence: str) -> None:
        self.reasons.append(reason)


@pytest.mark.parametrize(
    ("text", "label"),
    [
        ("Web", b"web"),
        ("x" * 63, b"x" * 63),
        ("x" * 64, None),
        ("", None),
        ("a\0b", b"a\0b"),
        ("ä", "ä".encode()),
    ],
)
def test_pack_label(text: str, label: bytes | None) -> None:
    assert pack_label(text) == label


@pytest.mark.parametrize(
    ("text", "name"),
    [("www.example.org", "www.example.org."), ("WWW.example.org.", "www.example.org."), ("10.0.0.1", None), ("", None),
     (".", None), ("a..b", None), ("x" * 64, None)],
)  # fmt: skip
def test_pack_target(text: str, name: str | None) -> None:
    assert pack_target(text) == (None if name is None else Name.from_text(name))


def test_keys_come_from_labels_and_names() -> None:
    assert pack_key(meta("Ns/Web")) == (b"ns", b"web")
    assert pack_key(ObjectMeta(name="web")) is None
    assert slice_owner(meta("ns/web-1", labels={"kubernetes.io/service-name": "web"})) == (
        b"ns",
        b"web",
    )
    assert slice_owner(meta("ns/web-1", labels={"kubernetes.io/service-name": ""})) is None
    assert slice_owner(meta("ns/web-1")) is None


@pytest.mark.parametrize(
    ("found", "kind", "rejected"),
    [
        (service("ns/a", "10.0.0.1"), CLUSTER_IP, 0),
        (service("ns/a"), HEADLESS, 0),
        (service("ns/a", external="x.example.org"), EXTERNAL_NAME, 0),
        (service("ns/a", external="10.0.0.1"), None, 1),
        (service("ns/a", external="a..b"), None, 1),
        (service("ns/a", "not-an-address"), CLUSTER_IP, 1),
        (Service(meta("ns/a")), CLUSTER_IP, 0),
        (Service(meta("ns/a"), ServiceSpec(cluster_ip="None")), HEADLESS, 0),
    ],
)
def test_pack_service(found: Service, kind: str | None, rejected: int) -> None:
    said = Rejected()
    assert pack_service(found, (), said).kind == kind
    assert len(said.reasons) == rejected


def test_a_service_without_ports_has_one_that_stands_for_none() -> None:
    assert pack_service(service("ns/a", "10.0.0.1", ports=()), (), Rejected()).ports == (
        Port(b"", b"", NO_PORT),
    )


HOSTILE = EndpointSlice(
    meta("ns/web-1"),
    "IPv6",
    [
        Endpoint(["10.0.0.1"], hostname="x" * 300),
        Endpoint(["bad", "fd00::1", "::ffff:10.0.0.2"], hostname="a"),
        Endpoint(None),
        Endpoint([]),
        Endpoint(["fd00:0::2"]),
    ],
    None,
)


def test_what_is_usable_of_a_slice_is_packed_and_the_rest_is_reported() -> None:
    said = Rejected()
    parts = pack_slice(HOSTILE, pod_names=False, reject=said)
    assert [(part.width, part.reversible, part.label(0)) for part in parts] == [
        (4, True, b"10-0-0-1"),
        (16, True, b"a"),
        (4, False, b"a"),
        (16, False, b"fd00-0--2"),
    ]
    assert {part.ports for part in parts} == {(Port(b"", b"", NO_PORT),)}
    assert said.reasons == ["hostname", "address"]


def test_nothing_ready_is_nothing_packed() -> None:
    found = endpoint_slice("ns/web-1", "web", "10.0.0.1 ready=false")
    assert pack_slice(found, pod_names=False, reject=Rejected()) == ()


def test_those_not_ready_are_counted_where_that_is_wanted() -> None:
    mixed = endpoint_slice("ns/web-1", "web", "10.0.0.1", "10.0.0.2,10.0.0.3 ready=false")
    none = endpoint_slice("ns/web-2", "web", "fd00::1 ready=false", address_type="IPv6")
    packed = [
        pack_slice(each, pod_names=False, reject=Rejected(), counts_not_ready=True)
        for each in (mixed, none)
    ]
    assert [
        [(part.width, part.host_count, part.not_ready) for part in parts] for parts in packed
    ] == [[(4, 1, 2)], [(16, 0, 1)]]
    value = ServiceValue(HEADLESS, slices=(*packed[0], *packed[1]))
    assert value.readiness == (1, 3)
    assert (value.has_endpoints, len(list(value.entries(None, b"", b"")))) == (True, 1)
    assert ServiceValue(HEADLESS).readiness == (0, 0)


def test_targets_of_slices_with_names() -> None:
    found = endpoint_slice("ns/web-1", "web", "a.example.org", "10.0.0.1", address_type="FQDN")
    parts = pack_slice(found, pod_names=False, reject=Rejected())
    assert [part.width for part in parts] == [4, 0]
    assert parts[1].targets == (Name.from_text("a.example.org"),)


def test_equal_labels_and_ports_are_one_object() -> None:
    one = pack_slice(
        endpoint_slice("a/1", "a", "10.0.0.1 host=x-0"), pod_names=False, reject=Rejected()
    )
    two = pack_slice(
        endpoint_slice("b/1", "b", "10.0.0.2 host=x-0"), pod_names=False, reject=Rejected()
    )
    assert one[0].ports is two[0].ports
    assert one[0].labels is not None
    assert two[0].labels is not None
    assert one[0].labels[0] is two[0].labels[0]
