import pytest

from hsdns.cli import load_sockets
from hsdns.cli.flags import FlagError
from hsdns.cli.load_sockets import SPARE, allow_sockets


@pytest.fixture(autouse=True)
def raised(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Where a process may have 256 descriptors; how often that was asked for."""
    found: list[int] = []
    monkeypatch.setattr(load_sockets, "raise_limit", lambda: found.append(1))
    monkeypatch.setattr(load_sockets, "descriptor_limit", lambda: 256)
    return found


def test_as_many_as_a_process_may_have(raised: list[int]) -> None:
    allow_sockets(256 - SPARE)
    allow_sockets(100, 124)
    assert raised == [1, 1]


@pytest.mark.parametrize(
    ("sockets", "connections", "sentence"),
    [
        (225, 0, "-sockets: 225 sockets may be open at once, and a process here may have 256 descriptors (ulimit -Hn); raise the limit, or ask from fewer"),
        (200, 25, "-sockets: 200 sockets and 25 connections may be open at once, and a process here may have 256 descriptors (ulimit -Hn); raise the limit, or ask from fewer"),
    ],
)  # fmt: skip
def test_more_than_that(sockets: int, connections: int, sentence: str) -> None:
    with pytest.raises(FlagError) as error:
        allow_sockets(sockets, connections)
    assert str(error.value) == sentence
