"""The source `replay`: a recording as a file, and its settings; tests/recording/test_anonymise.py has its course."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from hsdns.cluster.objects import Deleted, Event, Service, Synced, Upserted
from hsdns.cluster.source import Lead, Reading
from hsdns.sources.replay import REDUCED, Course, Replay
from tests.recording.recorded import HEADER, recorded, to_octets, write
from tests.support.cluster.objects import deletes, service, upserts
from tests.support.coroutines.event_loops import run, until
from tests.support.plugins.runtime import FakeRuntime

WEB, DB = service("shop/web", "10.96.7.7"), service("shop/db", "10.96.7.8")
STATE, CHANGES = upserts(WEB), [upserts(DB), deletes(WEB)]  # after 1 and 2 seconds


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write(Path("shop.rec"), [*STATE, Synced()], *CHANGES)


def fill(octets: bytes | None) -> None:
    """Replace the recording."""
    Path("shop.rec").unlink()
    if octets is not None:
        Path("shop.rec").write_bytes(octets)


class Case:
    """A source, what it has delivered and what it has reported."""

    def __init__(self, source: Replay) -> None:
        self.source = source
        self.events: list[Event] = []
        self.reports: list[tuple[int, str]] = []
        self.runtime = FakeRuntime()

    def deliver(self, events: Sequence[Event]) -> None:
        self.events += events

    def report(self, level: int, message: str) -> None:
        self.reports.append((level, message))

    def load(self) -> None:
        self.source.load(self.deliver, self.report)

    @asynccontextmanager
    async def watched(self) -> AsyncIterator[None]:
        self.load()
        watch = asyncio.ensure_future(self.source.watch(self.deliver, self.report, self.runtime))
        await asyncio.sleep(0)
        yield
        assert not watch.done()
        watch.cancel()
        with suppress(asyncio.CancelledError):
            await watch

    @property
    def services(self) -> list[str]:
        """What is there now."""
        names: dict[str, None] = {}
        for event in self.events:
            if isinstance(event, Upserted | Deleted) and isinstance(event.object, Service):
                names.pop(event.object.metadata.name, None)
                if isinstance(event, Upserted):
                    names[event.object.metadata.name] = None
        return list(names)


def test_the_first_state_is_served_at_once() -> None:
    case = Case(Replay("shop.rec", is_paused=True))
    run(shown(case))
    assert (case.services, case.events[1:]) == (["web"], [Synced()])
    sentence = "source replay: shop.rec: serving the state of 2026-01-01T00:00:00.000+00:00 at 0s; 2 changes follow, up to 9s"
    assert case.reports == [(logging.INFO, sentence)]
    assert case.source.silence(1e9) == 0.0


async def shown(case: Case) -> None:
    async with case.watched():
        pass


@pytest.mark.parametrize(("at", "services"), [(None, ["db"]), (1.0, ["web", "db"])])
def test_for_a_command_it_is_at_its_end(at: float | None, services: list[str]) -> None:
    case = Case(Replay("shop.rec", at=at))
    case.source.at_its_end()
    case.load()
    assert case.services == services


async def test_changes_and_then_the_last_state() -> None:
    case = Case(Replay("shop.rec", speed=0))
    async with case.watched():
        await until(lambda: len(case.reports) == 2, "it ends")
        assert case.services == ["db"]
        sentence = "source replay: shop.rec ends here, after 2 changes (interrupted); its last state is served from now on"
        assert case.reports[1] == (logging.INFO, sentence)
        assert (await case.source.course()).state == "over"


async def test_commands() -> None:
    case = Case(Replay("shop.rec", is_paused=True))
    async with case.watched():
        before = await case.source.course()
        assert before == Course("shop.rec", HEADER.began, "paused", 1.0, 0.0, 9.0, 0, 2, 1, "")
        stepped = await case.source.step(1)
        assert (stepped.at, stepped.applied, case.services) == (1.0, 1, ["web", "db"])
        assert (await case.source.set_speed(0.5)).speed == 0.5
        assert (await case.source.run()).state == "running"
        assert (await case.source.pause()).state == "paused"
        await case.source.set_speed(0)
        await case.source.run()
        await until(lambda: case.services == ["db"], "it goes on")


async def test_objects_are_read_as_they_are_at_its_place() -> None:
    case = Case(Replay("shop.rec", is_paused=True))
    lead = Lead(services=((b"shop", b"db"),))
    assert (await case.source.read(lead)).objects == ()
    async with case.watched():
        assert (await case.source.read(lead)).objects == ()
        await case.source.step(1)
        assert await case.source.read(lead) == Reading((DB,))
        of_state = await case.source.read(Lead(services=((b"shop", b"web"),)))
        assert (len(of_state.objects), of_state.faults) == (1, (REDUCED,))


async def test_a_file_that_was_cut() -> None:
    """What is whole is served, and where it ends is said at once and when it is there."""
    octets = to_octets(recorded([*STATE, Synced()], CHANGES), flushes=True)
    fill(octets[:-150])
    case = Case(Replay("shop.rec", speed=0))
    async with case.watched():
        await until(lambda: len(case.reports) == 3, "it ends")
        problem = f"shop.rec was cut at octet {len(octets) - 150}; line 4 is the last whole one"
        assert [message for _, message in case.reports] == [
            f"source replay: {problem}; what is whole is replayed",
            "source replay: shop.rec: serving the state of 2026-01-01T00:00:00.000+00:00 at 0s; 1 changes follow, up to 1s",
            f"source replay: shop.rec ends here, after 1 changes: {problem}; its last state is served from now on",
        ]
        assert case.services == ["web", "db"]
        assert (await case.source.course()).problem == problem


@pytest.mark.parametrize(
    ("octets", "sentence"),
    [
        (None, "source replay: shop.rec cannot be read: No such file or directory"),
        (b"hello\n", "source replay: shop.rec is not a recording of hsdns record"),
    ],
)
async def test_a_file_that_cannot_be_replayed(octets: bytes | None, sentence: str) -> None:
    fill(octets)
    case = Case(Replay("shop.rec"))
    assert case.source.check() == [sentence]
    async with case.watched():
        assert (case.events, case.reports) == ([], [(logging.ERROR, sentence)])
        assert not case.source.is_loaded
