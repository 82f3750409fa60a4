"""Packing objects into values, whatever they contain.

Labels below a Service: what an event changes, and that what exists is always listed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from hsdns.cluster import pack, schema
from hsdns.cluster.freshness import NoCounters
from hsdns.cluster.objects import Endpoint, EndpointSlice, Event
from hsdns.cluster.pack import TOPOLOGY, SliceChange, change_in_python, change_of, pack_slice
from hsdns.cluster.schema import SVC, ParsedName
from hsdns.cluster.services import Services
from hsdns.cluster.store import StoreSettings
from hsdns.cluster.value import NO_PORT, NO_PORTS, Key, PackedSlice, Port, join_labels
from hsdns.plugins.kubernetes import watch
from hsdns.wire.name import Name
from tests import strategies
from tests.cluster.test_reference import serve
from tests.support.cluster.objects import meta
from tests.support.cluster.reference import Options
from tests.support.effort import tries


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
    parts = pack_slice(HOSTILE, StoreSettings(), said)
    assert [(part.width, part.reversible, part.label(0)) for part in parts] == [
        (4, True, b"10-0-0-1"),
        (16, True, b"a"),
        (4, False, b"a"),
        (16, False, b"fd00-0--2"),
    ]
    assert {part.ports for part in parts} == {(Port(b"", b"", NO_PORT),)}
    assert said.reasons == ["hostname", "address"]


HTTP = Port(b"http", b"tcp", 80)
UNNAMED = Port(b"", b"tcp", 80)
LONG = Port(b"x" * 64, b"tcp", 80)


def part(addresses: bytes, labels: Any = None, ports: tuple[Port, ...] = NO_PORTS, width: int = 4,
         targets: tuple[Name, ...] = ()) -> PackedSlice:  # fmt: skip
    return PackedSlice("s", "1", width, addresses, join_labels(labels or ()), ports, targets)


TARGET = part(b"", (b"example-org", None), width=0, targets=(Name(b"\1a\0"), Name(b"\1b\0")))


def in_order(change: SliceChange) -> list[list[bytes]]:
    return [sorted(each) for each in change]


LABELS = st.sampled_from([b"web-0", b"web-1", b"10-0-0-1"])


@st.composite
def parts(draw: st.DrawFn) -> list[PackedSlice]:
    found = []
    for width in draw(st.lists(st.sampled_from([0, 4, 16]), max_size=3)):
        numbers = draw(st.lists(st.integers(1, 4), max_size=4))
        addresses = b"".join(bytes([10, *bytes(width - 2), each]) for each in numbers if width)
        labels = draw(
            st.none() | st.tuples(*([st.none() | LABELS] * len(numbers))) if width else st.just(())
        )
        ports = draw(st.sampled_from([NO_PORTS, (HTTP,), (UNNAMED, LONG), (HTTP, Port(b"a", b"udp", 1))]))  # fmt: skip
        reversible = draw(st.booleans())
        found.append(
            PackedSlice(
                "s", "1", width, addresses, join_labels(labels or ()), ports, reversible=reversible
            )
        )
    return [*found, *draw(st.sampled_from([(), (TARGET,)]))]


@given(parts(), parts())
def test_compiled_code_finds_the_same_changes(
    before: list[PackedSlice], after: list[PackedSlice]
) -> None:
    expected = in_order(change_in_python(before, after))
    assert in_order(change_of(before, after)) == expected
    with patch.object(pack, "slice_change", None):
        assert in_order(change_of(before, after)) == expected


class CheckedNames(NoCounters):
    """Names, and counters, that look before and after every step whether all that exists is listed."""

    def __init__(self) -> None:
        self.open = False
        self.serial = 0
        self.services: dict[Key, Counter[bytes]] = {}
        self.store: Services | None = None

    def add_namespace(self, label: bytes) -> None:
        """Namespaces are not looked at."""

    remove_namespace = add_namespace

    def add_service(self, *key: bytes) -> None:
        self.services[key] = Counter()  # type: ignore[index]  # two labels
        self.check()

    def remove_service(self, *key: bytes) -> None:
        del self.services[key]  # type: ignore[arg-type]  # two labels
        self.check()

    def add_labels(self, namespace: bytes, name: bytes, labels: Sequence[bytes]) -> None:
        self.check()
        self.services[namespace, name].update(labels)
        self.check()

    def remove_labels(self, namespace: bytes, name: bytes, labels: Sequence[bytes]) -> None:
        self.check()
        self.services[namespace, name] -= Counter(labels)
        self.check()

    def bump(self, index: int) -> None:
        self.check()

    def read(self, index: int) -> int:
        return 0

    def check(self) -> None:
        """What schema.py finds below a Service, of all labels that there are, is listed."""
        if self.store is None:
            return
        for (namespace, name), value in self.store.values.items():
            listed = self.services[namespace, name]
            every = {label for labels in self.services.values() for label in labels}
            for label in every - set(listed) | {TOPOLOGY}:
                first, second = label[1 : 1 + label[0]], label[2 + label[0] :]
                parsed = ParsedName(SVC, namespace, name, endpoint=first)
                if label == TOPOLOGY:
                    if label in listed:
                        continue
                    parsed = ParsedName(SVC, namespace, name, topology_zone=b"a")
                elif second:
                    parsed = ParsedName(SVC, namespace, name, port=first, protocol=second)
                found = schema.find(value, parsed, Name(b"\1?" + label + b"\0"), 5)
                assert found is None or (label == TOPOLOGY and not self.store._settings.zonal), (
                    label
                )


@pytest.mark.parametrize("zonal", [False, True])
@settings(
    max_examples=tries(20),
    suppress_health_check=list(HealthCheck),
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
)
@given(strategies.options(), strategies.histories())
def test_what_exists_is_listed_at_every_step(
    zonal: bool, options: Options, history: list[Event]
) -> None:
    """Whatever another thread finds between two steps of an event, it denies nothing that exists."""
    names = CheckedNames()
    with patch.object(watch, "ClusterNames", lambda: names):
        plugin = serve(options, [], counters=names, zonal=zonal)
    names.store = plugin.store.services
    for event in history:
        plugin.store.apply([event])
        names.check()
