import pytest

from hsdns.cli.flags import FlagError
from hsdns.load.cli import load as load_descriptors
from hsdns.load.cli.load import SPARE, allow_connections, allow_sockets, descriptors_needed
from hsdns.load.plan import StreamPlan
from hsdns.load.schedule import SECOND


@pytest.fixture(autouse=True)
def raised(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Where a process may have 256 descriptors; how often that was asked for."""
    found: list[int] = []
    monkeypatch.setattr(load_descriptors, "raise_limit", lambda: found.append(1))
    monkeypatch.setattr(load_descriptors, "descriptor_limit", lambda: 256)
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


@pytest.mark.parametrize(
    ("plan", "needed"),
    [
        (StreamPlan(connections=7), 7),
        (StreamPlan(connections=7, idle=SECOND), 7),
        (StreamPlan(connections=7, queries=1), 7),
        (StreamPlan(connections=7, queries=10, idle=3 * SECOND), 7 + 100 // 10 * 5 + 1),
    ],
)
def test_descriptors(plan: StreamPlan, needed: int) -> None:
    assert descriptors_needed(plan, 100.0, 2.0) == needed


def test_too_few_descriptors(monkeypatch: pytest.MonkeyPatch) -> None:
    sentence = (
        "1000 connections may be open at once, and a process here may have 1024 descriptors (ulimit -Hn); "
        "raise the limit, or lower -connections, -idle or -rate"
    )
    monkeypatch.setattr(load_descriptors, "descriptor_limit", lambda: 132)
    allow_connections(StreamPlan(connections=100), 1.0, 1.0)
    monkeypatch.setattr(load_descriptors, "descriptor_limit", lambda: 1024)
    with pytest.raises(FlagError) as error:
        allow_connections(StreamPlan(connections=1000), 1.0, 1.0)
    assert str(error.value) == sentence
