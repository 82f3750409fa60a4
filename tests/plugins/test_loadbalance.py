"""The weight file: its content, when it is read, and errors."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from ipaddress import ip_network
from itertools import pairwise
from pathlib import Path
from random import Random
from unittest import mock

import pytest

from hsdns.corefile.tree import CorefileError, Position
from hsdns.plugins import loadbalance
from hsdns.plugins.loadbalance import (
    MANY,
    BadWeights,
    Loadbalance,
    Weights,
    WeightsFile,
    prefer,
    shuffle,
)
from hsdns.turns import AT_ONCE
from hsdns.wire.message import Reply
from tests.support.coroutines.eager import finish, turns
from tests.support.coroutines.event_loops import run, until
from tests.support.plugins.requests import make_request, next_with, rr
from tests.support.plugins.runtime import FakeRuntime
from tests.support.plugins.setup import set_up
from tests.support.tables import columns, values

TABLES = Path(__file__).with_name("tables.txt")
WHERE = Position("Corefile", 2, 22)
TEXT = Path(__file__).with_name("loadbalance.txt").read_text()


def shares(weights: Weights, *texts: str) -> list[int]:
    """Return how often each record comes first in 1,000 replies."""
    random, records = Random(5), [rr(text) for text in texts]
    found = Counter(finish(weights.first(records, random)) for _ in range(1000))
    return [found[index] for index in range(len(records))]


@pytest.mark.parametrize(("records", "expected"), values(TABLES, "shares"))
def test_shares(records: list[str], expected: list[int]) -> None:
    weights = Weights(TEXT)
    assert len(weights) == 2
    found = shares(weights, *records)
    assert all(abs(one - other) < 60 for one, other in zip(found, expected, strict=True)), found


@pytest.mark.parametrize(("text", "sentence"), columns(TABLES, "weights"))
def test_errors(text: str, sentence: str) -> None:
    with pytest.raises(BadWeights) as caught:
        Weights(text.replace("\\n", "\n"))
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


@pytest.mark.parametrize(("text", "reload", "sentence"), values(TABLES, "errors at startup"))
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

        monkeypatch.setattr(loadbalance, "sleep", sleep)
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


A = [f"a.example.org. 5 IN A 192.0.2.{k}" for k in (1, 2, 3)]
AAAA = [f"a.example.org. 5 IN AAAA 2001:db8::{k}" for k in (1, 2)]
MX = [f"a.example.org. 5 IN MX {k} m{k}.example.org." for k in (10, 20)]


@pytest.mark.parametrize("records", [A, A + AAAA, MX], ids=["a", "a-and-aaaa", "mx"])
def test_all_addresses_come_first_equally_often(records: list[str]) -> None:
    random, found = Random(7), tuple(map(rr, records))
    first = Counter(shuffle(found, random)[0] for _ in range(1200))
    assert set(first) == set(found)
    assert min(first.values()) > 0.75 * 1200 / len(records)


# --- prefer ---


@pytest.mark.parametrize(("row", "expected"), columns(TABLES, "prefer"))
def test_prefer(row: str, expected: str) -> None:
    networks, _, given = row.partition(": ")
    before, after = (
        tuple(rr(f"a.example.org. 5 IN {each}") for each in texts.split(", "))
        for texts in (given, expected)
    )
    assert finish(prefer(before, [ip_network(text) for text in networks.split()])) == after


# --- the answer table ---


def test_many_addresses_are_rotated_with_one_random_number() -> None:
    """To shuffle the addresses of 20,000 endpoints would hold the loop for milliseconds."""
    found = tuple(rr(f"db. 5 IN A 10.{n >> 8}.{n & 255}.1") for n in range(20_000))

    random = mock.Mock(spec=Random)
    random.randrange.return_value = 12_345
    assert shuffle(found, random) == (*found[12_345:], *found[:12_345])
    assert random.randrange.call_count == 1
    assert all(call.args == ([],) for call in random.shuffle.mock_calls)
    few = shuffle(found[:MANY], Random(1))
    assert sorted(few) == sorted(found[:MANY])
    assert few != found[:MANY]
    assert any(one.rdata > two.rdata for one, two in pairwise(few[:100]))


def test_addresses_are_compared_with_networks_as_octets() -> None:
    """Without an object for each address: there may be 20,000."""
    records = ["a. 5 IN A 10.0.0.255", "a. 5 IN A 10.0.1.0", "a. 5 IN AAAA a00::1"]
    found = tuple(map(rr, records))
    networks = [ip_network("10.0.1.0/24"), ip_network("a00::/16"), ip_network("10.0.0.255/32")]
    with mock.patch("hsdns.plugins.loadbalance.ip_address", side_effect=AssertionError):
        assert finish(prefer(found, networks)) == (found[1], found[2], found[0])


@pytest.mark.parametrize("policy", ["prefer", "weighted"])
def test_thousands_of_addresses_are_compared_in_several_turns(policy: str, tmp_path: Path) -> None:
    """To compare those of 20,000 endpoints at once would hold the loop for milliseconds."""
    (tmp_path / "weights").write_text("db\n10.0.0.1 200\n")
    text = {
        "prefer": "loadbalance {\nprefer 10.3.0.0/16 10.1.0.0/16\n}",
        "weighted": f"loadbalance weighted {tmp_path}/weights {{\nreload 0s\n}}",
    }[policy]
    records = tuple(rr(f"db. 5 IN A 10.{n % 4}.{n >> 8}.{n & 255}") for n in range(4 * AT_ONCE - 1))
    plugin = set_up(Loadbalance, text)
    finish(plugin.start(FakeRuntime()))
    found, count = turns(plugin.handle(make_request("db."), next_with(Reply(answer=records))))
    assert (set(found.answer), count) == (set(records), 3)
    if policy == "prefer":
        networks = [each.rdata[1] for each in found.answer]
        assert networks[: 2 * AT_ONCE - 1] == [3] * (AT_ONCE - 1) + [1] * AT_ONCE
