from random import Random

import pytest

from tests.support.fuzz.fuzzer import Finding, Fuzzer, Target, TooCostly, execute, mutate, shorten


def check(octets: bytes) -> None:
    """Raise for octets that mutation finds only step by step."""
    if octets[:1] != b"K":
        return
    if octets[1:2] != b"e":
        return
    if octets[2:3] == b"y":
        raise ValueError("found")


def check_slowly(octets: bytes) -> None:
    """Look at all octets again for each 7."""
    for each in octets:
        if each == 7:
            for _ in octets:
                pass


TARGET = Target("x", check, (__file__,), (b"tok",), 64, 100, 20)
SLOW = TARGET._replace(check=check_slowly)


def test_lines_lead_to_a_finding() -> None:
    fuzzer = Fuzzer(TARGET, [b"....."], Random(1))
    found = next(filter(None, (fuzzer.step() for _ in range(100_000))))
    assert found.octets.startswith(b"Key")
    assert str(found.error) == "found"
    assert fuzzer.kept == 3  # without K, with K, and with Ke


def test_a_finding_is_shortened() -> None:
    found = Finding(b"Key and much that it does not need", ValueError("found"))
    assert shorten(found, TARGET).octets == b"Key"


@pytest.mark.parametrize(("octets", "is_too_costly"), [(bytes(40), False), (b"\7" * 40, True)])
def test_cost_is_counted_in_lines(octets: bytes, is_too_costly: bool) -> None:
    if is_too_costly:
        with pytest.raises(TooCostly, match="more than 900 lines for 40 octets"):
            execute(SLOW, octets)
    else:
        assert execute(SLOW, octets)


def test_a_run_can_be_repeated() -> None:
    def inputs(seed: int) -> list[bytes]:
        random = Random(seed)
        return [mutate(b"some octets", b"others", TARGET, random) for _ in range(200)]

    assert inputs(5) == inputs(5)
    assert inputs(5) != inputs(6)
    assert max(map(len, inputs(5))) <= 64


def test_other_files_are_not_counted() -> None:
    assert not execute(SLOW._replace(traced=("/none/",)), b"\7" * 40)
