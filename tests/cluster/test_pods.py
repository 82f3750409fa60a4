"""Addresses in pod names."""

import pytest

from hsdns.cluster.pods import pod_address


@pytest.mark.parametrize(
    ("label", "address"),
    [
        (b"1-2-3-4", bytes((1, 2, 3, 4))),
        (b"1-2-3-256", None),
        (b"1-2-3", None),
        (b"01-2-3-4", None),
        (b"--1", bytes(15) + b"\1"),
        (b"fd00--1", b"\xfd" + bytes(14) + b"\1"),
        (b"1--2-3", b"\0\1" + bytes(10) + b"\0\2\0\3"),
        (b"--ffff-102-304", bytes((1, 2, 3, 4))),
        (b"fe80--1%eth0", None),
        (b"web", None),
        (b"\xff", None),
    ],
)
def test_pod_address_of_any_pod(label: bytes, address: bytes | None) -> None:
    assert pod_address(label, None, b"ns") == address
