import pytest

from hsdns.load.errors import LoadError
from hsdns.load.schedule import Schedule, Stage
from hsdns.load.target import FAILING_AFTER, FailureWatch, check_schedule, check_target


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


def test_no_address() -> None:
    with pytest.raises(LoadError) as error:
        check_target("dns.example", [])
    assert (
        str(error.value) == '"dns.example" is no IP address; -server takes one, such as 127.0.0.1'
    )


@pytest.mark.parametrize(
    ("stage", "sentence"),
    [
        (Stage(10, 1000, 1000), ""),
        (Stage(10, 0, 1001), "-rate: 1001 queries a second are above the ceiling of 1000; -max-rate 1001 lifts it"),
        (Stage(61, 1, 1), "-time: 1m1s is above the ceiling of 1m0s; -max-time 1m1s lifts it"),
    ],
)  # fmt: skip
def test_ceilings(stage: Stage, sentence: str) -> None:
    said = ""
    try:
        check_schedule(Schedule((stage,)), 1000, 60)
    except LoadError as error:
        said = str(error)
    assert said == sentence


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
