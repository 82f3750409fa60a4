"""The weight file: its content, when it is read, and errors."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from pathlib import Path
from random import Random

import pytest

from hsdns.corefile.tree import CorefileError, Position
from hsdns.plugins.loadbalance import weights
from hsdns.plugins.loadbalance.weights import BadWeights, Weights, WeightsFile
from tests.support.coroutines.eager import finish
from tests.support.coroutines.event_loops import run, until
from tests.support.plugins.requests import rr
from tests.support.plugins.runtime import FakeRuntime

WHERE = Position("Corefile", 2, 22)
TEXT = """
# a comment
www.example.org
192.0.2.1 3
  192.0.2.2   1
2001:db8::1 255

Other.example.org.
192.0.2.1 200
"""
FOUND = [rr(f"www.example.org. 5 IN A 192.0.2.{number}") for number in (1, 2)]


def shares(weights: Weights, *texts: str) -> list[int]:
    """Return how often each record comes first in 1,000 replies."""
    random, records = Random(5), [rr(text) for text in texts]
    found = Counter(finish(weights.first(records, random)) for _ in range(1000))
    return [found[index] for index in range(len(records))]


@pytest.mark.parametrize(
    ("records", "expected"),
    [
        (["www.example.org. 5 IN A 192.0.2.1", "www.example.org. 5 IN A 192.0.2.2"], [750, 250]),
        (["WWW.example.org. 5 IN A 192.0.2.2", "WWW.example.org. 5 IN A 192.0.2.1"], [250, 750]),
        (["www.example.org. 5 IN A 192.0.2.1", "www.example.org. 5 IN A 192.0.2.9"], [750, 250]),
        (["other.example.org. 5 IN A 192.0.2.9", "other.example.org. 5 IN A 192.0.2.1"], [5, 995]),
        (["x.example.org. 5 IN A 192.0.2.1", "x.example.org. 5 IN A 192.0.2.2"], [500, 500]),
        (["www.example.org. 5 IN AAAA 2001:db8::1", "www.example.org. 5 IN AAAA 2001:db8::2"], [996, 4]),
        (["x.example.org. 5 IN A 192.0.2.1"], [1000]),
    ],
)  # fmt: skip
def test_shares(records: list[str], expected: list[int]) -> None:
    weights = Weights(TEXT)
    assert len(weights) == 2
    found = shares(weights, *records)
    assert all(abs(one - other) < 60 for one, other in zip(found, expected, strict=True)), found


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("192.0.2.1", '1: "192.0.2.1" is an address without a weight; add one'),
        ("a..b", "1: \"a..b\" is not a name: label b'' has 0 octets, allowed are 1 to 63"),
        ("\n192.0.2.1 1", "2: no name precedes this address; write one on a line of its own"),
        ("a\nx 1", '2: "x" is not an address'),
        ("a\n192.0.2.1 0", '2: "0" is not a weight; write a number from 1 to 255'),
        ("a\n192.0.2.1 256", '2: "256" is not a weight; write a number from 1 to 255'),
        ("a\n192.0.2.1 -1", '2: "-1" is not a weight; write a number from 1 to 255'),
        ("a\n192.0.2.1 1 2", "2: found 3 words; write a name, or an address and its weight"),
    ],
)
def test_errors(text: str, sentence: str) -> None:
    with pytest.raises(BadWeights) as caught:
        Weights(text)
    assert str(caught.value) == sentence


def test_a_repeated_name_adds_addresses_and_the_first_weight_applies() -> None:
    weights = Weights("a\n192.0.2.1 200\nb\nA.\n192.0.2.1 1\n192.0.2.2 1\n")
    assert shares(weights, "a. 5 IN A 192.0.2.1", "a. 5 IN A 192.0.2.2")[0] > 950


# --- the file ---


def test_a_missing_file_is_a_warning_if_it_is_read_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    runtime = FakeRuntime()
    path = tmp_path / "weights"
    finish(WeightsFile(str(path), 30.0, WHERE).start(runtime))
    assert [record.message for record in caplog.records] == [
        f'plugin/loadbalance: cannot read weight file "{path}": No such file or directory; '
        "trying again every 30 seconds"
    ]
    assert set(runtime.spawned) == {"loadbalance"}
    runtime.spawned["loadbalance"].close()


@pytest.mark.parametrize(
    ("text", "reload", "sentence"),
    [
        (None, 0.0, 'cannot read weight file "PATH": No such file or directory'),
        ("a b c", 0.0, "PATH:1: found 3 words; write a name, or an address and its weight"),
        ("a b c", 30.0, "PATH:1: found 3 words; write a name, or an address and its weight"),
    ],
)
def test_errors_at_startup(text: str | None, reload: float, sentence: str, tmp_path: Path) -> None:
    path = tmp_path / "weights"
    if text is not None:
        path.write_text(text)
    with pytest.raises(CorefileError) as caught:
        finish(WeightsFile(str(path), reload, WHERE).start(FakeRuntime()))
    assert str(caught.value) == f"Corefile:2:22: {sentence.replace('PATH', str(path))}"


def test_without_reload_the_file_is_read_once(tmp_path: Path) -> None:
    runtime, path = FakeRuntime(), tmp_path / "weights"
    path.write_text(TEXT)
    file = WeightsFile(str(path), 0.0, WHERE)
    finish(file.start(runtime))
    assert runtime.spawned == {}
    assert len(file.weights) == 2


def test_a_changed_file_is_read_and_an_invalid_one_is_not_used(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "weights"
    path.write_text("a\n")
    caplog.set_level(logging.INFO)

    async def test() -> list[int]:
        runtime, looks, counts = FakeRuntime(), asyncio.Queue[None](), []
        file = WeightsFile(str(path), 30.0, WHERE)

        async def sleep(seconds: float) -> None:
            assert seconds == 30.0
            counts.append(len(file.weights))
            await looks.get()

        monkeypatch.setattr(weights, "sleep", sleep)
        await file.start(runtime)

        async def look(number: int) -> None:
            looks.put_nowait(None)
            await until(lambda: len(counts) == number, f"look {number}")

        await look(2)  # nothing new
        path.write_text("a\nb\n")
        await look(3)
        path.write_text("a b c\n")
        await look(4)
        path.unlink()
        await look(5)
        await runtime.stop_tasks()
        return counts

    assert run(test()) == [1, 1, 2, 2, 2]
    assert [record.message.replace(str(path), "PATH") for record in caplog.records] == [
        "plugin/loadbalance: Successfully reloaded weight file PATH",
        "plugin/loadbalance: Successfully reloaded weight file PATH",
        "plugin/loadbalance: PATH:1: found 3 words; write a name, or an address and its weight; still using the previous weights",
        'plugin/loadbalance: cannot read weight file "PATH": No such file or directory',
    ]
