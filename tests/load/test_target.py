from __future__ import annotations

import pytest

from hsdns.load.errors import LoadError
from hsdns.load.target import (
    FAILING_AFTER,
    FailureWatch,
    Target,
    check_target,
    read_targets,
)


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (["127.0.0.1"], [("127.0.0.1 port 53", "127.0.0.1", 53)]),
        (["127.0.0.1:1053"], [("127.0.0.1 port 1053", "127.0.0.1", 1053)]),
        (["::1"], [("::1 port 53", "::1", 53)]),
        (["[::1]"], [("::1 port 53", "::1", 53)]),
        (["[::1]:1053"], [("::1 port 1053", "::1", 1053)]),
        (["hsdns=10.96.0.10", "Core DNS=10.96.0.11:54"], [("hsdns", "10.96.0.10", 53), ("Core DNS", "10.96.0.11", 54)]),
        (["a=b=127.0.0.1"], [("a=b", "127.0.0.1", 53)]),
        (["192.0.2.1"], [("192.0.2.1 port 53", "192.0.2.1", 53)]),
    ],
)  # fmt: skip
def test_targets(words: list[str], found: list[tuple[str, str, int]]) -> None:
    assert read_targets(words, 53, ["192.0.2.1"]) == [Target(*each) for each in found]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["=127.0.0.1"], '-server: "=127.0.0.1" has an empty name; write NAME=ADDRESS, or only ADDRESS'),
        (["127.0.0.1:70000"], '-server: "70000" in "127.0.0.1:70000" is no port; write ADDRESS:PORT with one from 1 to 65535'),
        (["[::1]:x"], '-server: "x" in "[::1]:x" is no port; write ADDRESS:PORT with one from 1 to 65535'),
        (["a=127.0.0.1", "a=127.0.0.2"], '-server: "a" is given twice; give each server a name of its own, as NAME=ADDRESS'),
        (["127.0.0.1", "127.0.0.1:53"], '-server: "127.0.0.1 port 53" is given twice; give each server a name of its own, as NAME=ADDRESS'),
        (["kube-dns"], '"kube-dns" is no IP address; -server takes one, such as 127.0.0.1'),
        (["127.0.0.1", "8.8.8.8:53"], "8.8.8.8 is neither loopback nor private: load there is an attack unless the server is yours; if it is, add -i-own-this 8.8.8.8"),
    ],
)  # fmt: skip
def test_bad_input(words: list[str], sentence: str) -> None:
    with pytest.raises(LoadError) as error:
        read_targets(words, 53, [])
    assert str(error.value) == sentence


@pytest.mark.parametrize(
    "address",
    ["127.0.0.1", "127.9.9.9", "10.96.0.10", "172.31.0.1", "192.168.1.1", "169.254.20.10", "100.64.0.1", "::1", "fd00::1", "fe80::1%eth0", "::ffff:10.0.0.1"],
)  # fmt: skip
def test_own_addresses(address: str) -> None:
    check_target(address, [])


@pytest.mark.parametrize("address", ["8.8.8.8", "172.32.0.1", "2001:db8::1", "::ffff:8.8.8.8", "0.0.0.0"])  # fmt: skip
def test_others(address: str) -> None:
    with pytest.raises(LoadError) as error:
        check_target(address, ["192.0.2.1"])
    assert str(error.value) == (
        f"{address} is neither loopback nor private: load there is an attack unless the server is yours; "
        f"if it is, add -i-own-this {address}"
    )
    check_target(address, ["192.0.2.1", address])


@pytest.mark.parametrize(
    ("seconds", "ends"),
    [
        ([(0, 5)] * FAILING_AFTER, True),
        ([(0, 5)] * (FAILING_AFTER - 1), False),
        ([(0, 5), (1, 5), (0, 5), (0, 5)], False),
        ([(0, 5), (0, 0), (0, 5), (0, 5)], True),  # a second without queries says nothing
    ],
)
def test_a_target_that_fails_everything(seconds: list[tuple[int, int]], ends: bool) -> None:
    failures = FailureWatch()
    found = [failures.see(number, *counts) for number, counts in enumerate(seconds)]
    assert found[-1] is ends
    assert failures.see(0, 0, 5) is False
