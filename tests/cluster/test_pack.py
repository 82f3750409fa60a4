"""Packing objects into values, whatever they contain."""

from hsdns.cluster.objects import Endpoint, EndpointSlice
from hsdns.cluster.pack import (
    pack_slice,
)
from hsdns.cluster.value import HEADLESS, NO_PORT, Port, ServiceValue
from tests.support.cluster.objects import endpoint_slice, meta


class Rejected:
    """Records the reasons."""

    def __init__(self) -> None:
        self.reasons: list[str] = []

    def __call__(self, reason: str, sentence: str) -> None:
        self.reasons.append(reason)


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
