"""Counters and the names of a cluster."""

from collections import Counter
from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hsdns.fastpath.versions import ClusterNames, has_label


@pytest.mark.parametrize("index", [0, 1, 65535, 65536, 1 << 40, -1])
def test_counters_are_taken_modulo_their_number(twin: ModuleType, index: int) -> None:
    versions = twin.Versions()
    assert versions.SIZE == 65536
    assert versions.read(index) == 0
    versions.bump(index)
    versions.bump(index)
    assert versions.read(index) == versions.read(index % 65536) == 2
    assert sum(versions.read(other) for other in range(65536)) == 2


def test_names_come_and_go(twin: ModuleType) -> None:
    names = twin.ClusterNames()
    assert (names.open, names.serial, len(names)) == (False, 0, 0)
    names.add_namespace(b"default")
    names.add_service(b"default", b"web")
    names.add_service(b"default", b"web")
    names.add_service(b"default", b"db")
    assert len(names) == 2
    assert names.has_namespace(b"default")
    assert names.has_service(b"default", b"web")
    assert not names.has_service(b"web", b"default")
    assert not names.has_namespace(b"web")
    names.remove_namespace(b"default")
    names.remove_namespace(b"never there")
    names.remove_service(b"default", b"web")
    names.remove_service(b"default", b"never there")
    assert not names.has_namespace(b"default")
    assert not names.has_service(b"default", b"web")
    assert names.has_service(b"default", b"db")


def test_labels_of_no_service_are_ignored(twin: ModuleType) -> None:
    names = twin.ClusterNames()
    names.add_labels(b"default", b"web", [b"\1a"])
    names.remove_labels(b"default", b"web", [b"\1a"])
    assert not names.has_service(b"default", b"web")
    assert len(names) == 0


labels = st.lists(st.sampled_from([b"\1a", b"\1b", b"\1c", b"\1d"]), max_size=6)


@given(st.lists(st.tuples(st.booleans(), labels)))
def test_labels_are_counted(steps: list[tuple[bool, list[bytes]]]) -> None:
    """A label is listed while it was added more often than removed; asked through the hashes of the Python twin."""
    names, expected = ClusterNames(), Counter[bytes]()
    names.add_service(b"default", b"web")
    for adds, some in steps:
        if adds:
            names.add_labels(b"default", b"web", some)
            expected.update(some)
        else:
            names.remove_labels(b"default", b"web", some)
            expected -= Counter(some)
        hashes = names.services[b"default"][b"web"]
        assert list(hashes) == sorted(map(hash, expected.elements()))
        assert {each for each in (b"\1a", b"\1b", b"\1e") if has_label(hashes, each)} == {
            each for each in (b"\1a", b"\1b") if expected[each]
        }


def test_a_serial_has_32_bits(twin: ModuleType) -> None:
    names = twin.ClusterNames()
    names.serial = 0xFFFFFFFF
    assert names.serial == 0xFFFFFFFF
    for wrong in (-1, 1 << 32):
        with pytest.raises(OverflowError):
            names.serial = wrong
    names.open = True
    assert names.open
