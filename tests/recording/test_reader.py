"""Reading a recording, as far as it is whole, and the course of a replay, with the clock of the test."""

from __future__ import annotations

import io
from itertools import islice
from math import inf
from pathlib import Path

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from hsdns import __version__
from hsdns.cluster.objects import Deleted, Event, Object, ObjectMeta, Synced
from hsdns.cluster.store import Store, StoreSettings
from hsdns.recording import reader
from hsdns.recording.entry import (
    Entry,
    Gap,
    Header,
    ObjectEvent,
    RecordedObject,
    State,
    to_line,
    to_raw,
)
from hsdns.recording.playback import Playback
from hsdns.recording.reader import (
    FRAME,
    MAGIC,
    BadRecording,
    Damaged,
    FrameWriter,
    Summary,
    read_lines,
    read_queries,
    summarise,
    zstd,
)
from tests import strategies
from tests.recording.recorded import (
    END,
    HEADER,
    Course,
    make_store,
    opened,
    query,
    recorded,
    to_octets,
    whole,
)
from tests.support.cluster.objects import deletes, service, upserts
from tests.support.effort import tries

WEB = upserts(service("shop/web", "10.96.7.7"))
DB = upserts(service("shop/db", "10.96.7.8"))
ENTRIES: list[Entry] = [*recorded(WEB, [DB])[:-1], query(1.5), END]


def lines(*more: bytes) -> bytes:
    """A recording without compression."""
    return b"".join([to_line(HEADER), *map(to_line, ENTRIES[:-1]), *more])


def test_cut_at_any_octet_the_entries_before_are_read() -> None:
    octets = to_octets(ENTRIES, flushes=True)
    counts: list[int] = []
    for cut in range(len(octets) + 1):
        try:
            recording = opened(octets[:cut])
        except BadRecording as error:
            assert not counts
            assert "before its first whole line" in str(error) or str(error) == "FILE is empty, so it is no recording"  # fmt: skip
            continue
        found = list(recording)
        assert list(map(to_line, found)) == list(map(to_line, ENTRIES[: len(found)]))
        assert (recording.problem == "") is (len(found) == len(ENTRIES))
        counts.append(len(found))
    assert counts == sorted(counts)
    assert set(counts) == set(range(len(ENTRIES) + 1))


@pytest.mark.parametrize(
    ("octets", "count", "problem"),
    [
        pytest.param(lines(), 4, "FILE has no end after line 5: its recorder was killed, or the file was cut", id="no-end"),
        pytest.param(lines(b'{"entry":"gap"}\n', to_line(END)), 4, "FILE is broken at line 6: it is no entry of a recording: Object missing required field `at`", id="broken"),
        pytest.param(lines(b'{"entry":"weather"}\n', to_line(END)), 5, "", id="unknown"),
        pytest.param(lines(b'{"entry":"ga'), 4, "FILE was cut in the middle of an entry, at octet 1013; line 5 is the last whole one", id="cut"),
        pytest.param(lines(to_line(END), b"more\n"), 5, "", id="after-the-end"),
    ],
)  # fmt: skip
def test_where_it_ends(octets: bytes, count: int, problem: str) -> None:
    recording = opened(octets)
    assert (len(list(recording)), recording.problem) == (count, problem)


@pytest.mark.parametrize(
    ("octets", "sentence"),
    [
        (b"", "FILE is empty, so it is no recording"),
        (b"hello\n", "FILE is no recording of hsdns record"),
        (b"\x28\xb5\x2f\xfdhello", "FILE is damaged, or was changed, after octet 0, before its first whole line"),
        (to_octets([])[:9], "FILE was cut at octet 9, before its first whole line"),
        (b'{"format":"x","version":1}\n', "FILE is no recording of hsdns record"),
        (b'{"format":"hsdns recording","version":2,"entry":7}\n', f"FILE is a recording of version 2, and hsdns {__version__} reads version 1; use the hsdns that recorded it"),
        (b'{"format":"hsdns recording","version":1,"entry":"gap"}\n', "FILE is broken at line 1: it is no entry of a recording: Object missing required field `at`"),
        (b'{"format":"hsdns recording","version":1,"entry":"weather"}\n', "FILE is no recording of hsdns record"),
        (to_line(Header(zones=["cluster.local {"])), "FILE is broken at line 1: 'cluster.local {' is no word of a Corefile"),
        (to_line(Header(kubernetes=[["ttl", "30\n"]])), "FILE is broken at line 1: '30\\n' is no word of a Corefile"),
    ],
)  # fmt: skip
def test_files_that_are_no_recordings(octets: bytes, sentence: str) -> None:
    with pytest.raises(BadRecording) as caught:
        opened(octets)
    assert str(caught.value) == sentence


def test_the_queries_of_a_file(tmp_path: Path) -> None:
    path = tmp_path / "shop.rec"
    path.write_bytes(to_octets([query(1.0, "a."), *ENTRIES[:-1], query(2.0, "b.")]) + b"more")
    assert [each.name for each in read_queries(str(path))] == ["a.", "web.shop.svc.cluster.local.", "b."]  # fmt: skip
    with pytest.raises(FileNotFoundError):
        list(read_queries(str(tmp_path / "none")))


# What is in a recording.


WEB_SUMMARY = service("shop/web", "10.96.7.7")


def test_summary(tmp_path: Path) -> None:
    path = tmp_path / "shop.rec"
    entries: list[Entry] = [
        query(0.0),
        *recorded(upserts(WEB_SUMMARY), [deletes(WEB_SUMMARY), upserts(WEB_SUMMARY)])[:-1],
        Gap(3.0, "", 7),
        State(4.5, "", 0, serves=True),
        query(60.0),
    ]
    path.write_bytes(to_octets(entries))
    problem = f"{path} has no end after line 9: its recorder was killed, or the file was cut"
    assert summarise(str(path)) == Summary(HEADER.began, 4.5, 3, 7, problem)


# Lines in compressed frames, and what can be read of a file that was cut or damaged.


# What is done with a writer: a line of a length, or a flush.
steps = st.lists(st.integers(0, 90) | st.none(), max_size=30)


def written(done: list[int | None]) -> tuple[bytes, list[tuple[int, bytes]]]:
    """The octets, and each line with the octets after which it is in the file."""
    file = io.BytesIO()
    writer = FrameWriter(file.write)
    lines: list[bytes] = []
    flushed: list[tuple[int, bytes]] = []
    for number, step in enumerate(done):
        if step is not None:
            lines.append(b"%d " % number + b"x" * step)
            writer.add(lines[-1] + b"\n")
        else:
            writer.flush()
            flushed += [(file.tell(), line) for line in lines]
            lines = []
    writer.flush()
    flushed += [(file.tell(), line) for line in lines]
    return file.getvalue(), flushed


def read(octets: bytes) -> tuple[list[bytes], str]:
    """The lines, and what is wrong with the rest."""
    found: list[bytes] = []
    try:
        found.extend(read_lines(io.BytesIO(octets)))  # what was found before an error stays
    except Damaged as damage:
        return found, str(damage)
    return found, ""


@given(steps, st.data())
def test_of_a_file_cut_at_any_octet_what_was_flushed_before_is_read(
    done: list[int | None], data: st.DataObject
) -> None:
    octets, lines = written(done)
    cut = data.draw(st.integers(0, len(octets)))
    found, problem = read(octets[:cut])
    assert found == [line for end, line in lines if end <= cut]
    if problem:
        assert problem.endswith(f"at octet {cut}")


@given(steps, st.data())
def test_no_line_of_a_damaged_file_is_another_one(done: list[int | None], data: st.DataObject) -> None:  # fmt: skip
    """Also where the frames before are whole."""
    octets, lines = written([*done, 5])
    damaged = bytearray(octets)
    at = data.draw(st.integers(len(MAGIC), len(octets) - 1))
    damaged[at] ^= data.draw(st.integers(1, 255))
    found, _ = read(bytes(damaged))
    assert found == [line for _, line in lines][: len(found)]


def test_a_frame_ends_after_so_much_text() -> None:
    file = io.BytesIO()
    writer = FrameWriter(file.write)
    writer.add(b"x" * FRAME + b"\n")
    ended = file.tell()
    writer.flush()
    assert file.tell() == ended  # nothing was left to do
    assert read(file.getvalue()) == ([b"x" * FRAME], "")


def test_one_long_frame_is_given_out_as_it_is_read() -> None:
    """As another program makes it."""
    compressor = zstd.ZstdCompressor()
    lines = b"".join(b"%d\n" % number for number in range(700_000))
    octets = compressor.compress(lines, mode=zstd.ZstdCompressor.FLUSH_FRAME)
    found = read_lines(io.BytesIO(octets[:-9]))
    assert list(islice(found, 3)) == [b"0", b"1", b"2"]
    with pytest.raises(Damaged, match=f"was cut at octet {len(octets) - 9}"):
        list(found)


def test_a_line_has_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """A small file may stand for a line that no memory has room for."""
    monkeypatch.setattr(reader, "MAX_LINE", 1_000_000)
    octets = zstd.ZstdCompressor().compress(b"x" * 50_000_000, mode=zstd.ZstdCompressor.FLUSH_FRAME)
    assert len(octets) < 10_000
    found, problem = read(octets)
    assert found == []
    assert problem.startswith("has a line of more than 1000000 octets before octet ")


# --- the course of a replay ---

TIME = "2026-01-01T00:00:00.000+00:00"
WEB_SERVICE, DB_SERVICE, API_SERVICE = (service(f"shop/{name}", f"10.96.7.{at}") for at, name in enumerate(("web", "db", "api")))  # fmt: skip
# web at the start, db after 1 s, api after 2 s, no db after 3 s
SHOP = recorded(
    upserts(WEB_SERVICE), [upserts(DB_SERVICE), upserts(API_SERVICE), deletes(DB_SERVICE)]
)


def play(entries: list[Entry], *, speed: float = 1.0, is_paused: bool = False) -> Playback:
    """A replay that begins when the clock is at 100 s."""
    found = Playback(opened(to_octets(entries)), speed=speed, is_paused=is_paused)
    found.begin(100.0)
    return found


def names(found: Playback) -> list[str]:
    return sorted(each.metadata.name for each in found.objects.values())


settings_of_stores = st.builds(
    StoreSettings,
    noendpoints=st.just(False),
    pods=st.just(True),
    pod_labels=st.booleans(),
    endpoint_pod_names=st.booleans(),
    zonal=st.booleans(),
    multicluster=st.booleans(),
    not_ready=st.booleans(),
)


# Making a history smaller takes minutes, more than a test may.
@settings(max_examples=tries(12), phases=[Phase.explicit, Phase.reuse, Phase.generate])
@given(strategies.histories(), settings_of_stores, st.data())
def test_a_replay_has_the_state_that_was_recorded_after_each_event(
    history: list[Event], chosen: StoreSettings, data: st.DataObject
) -> None:
    """Wherever in a history the recording begins."""
    at = data.draw(st.integers(0, len(history)))
    course = Course(make_store(chosen))
    course.apply(history[:at])
    entries = course.begin()
    states = [whole(course.store)]
    for event in history[at:]:
        found = course.apply([event])
        assert found or whole(course.store) == states[-1]
        entries += found
        states += [whole(course.store)] * len(found)
    replayed = Playback(opened(to_octets([*entries, END])), is_paused=True)
    store = make_store(chosen)
    store.apply(replayed.begin(0.0))
    for expected in states:
        assert whole(store) == expected
        store.apply(replayed.step(1, 0.0))
    assert (replayed.is_over, replayed.recording.problem, replayed.recording.end) == (True, "", END)


@pytest.mark.parametrize(("speed", "wait"), [(2.0, 0.5), (0.5, 2.0), (0.0, 0.0)])
def test_speed(speed: float, wait: float) -> None:
    found = play(SHOP, speed=speed)
    assert found.wait(100.0) == wait
    assert (found.due(100.0 + wait) == upserts(DB_SERVICE)) is (speed > 0)


def test_steps() -> None:
    found = play(SHOP)
    assert found.step(1, 100.0) == upserts(DB_SERVICE)
    assert (found.is_paused, found.place(300.0), found.wait(300.0)) == (True, 1.0, inf)
    assert len(found.step(7, 300.0)) == 2
    assert (found.is_over, found.step(1, 300.0), found.applied) == (True, [], 3)


def test_a_place_and_then_on() -> None:
    found = play(SHOP)
    found.go_to(1.5, 100.0)
    assert (found.wait(100.0), found.applied) == (0.5, 1)


def state_of(*objects: Object, at: float, serves: bool = True) -> list[Entry]:
    return [*(RecordedObject(to_raw(each)) for each in objects), State(at, TIME, len(objects), serves)]  # fmt: skip


def test_of_another_state_only_the_difference_is_delivered() -> None:
    changed = service("shop/web", "10.96.9.9")
    found = play(
        [*state_of(WEB_SERVICE, DB_SERVICE, at=0.0), *state_of(changed, API_SERVICE, at=1.0), END]
    )
    events = found.due(101.0)
    assert events == [
        Deleted(type(DB_SERVICE)(ObjectMeta("db", "shop"))),
        *upserts(changed, API_SERVICE),
        Synced(),
    ]
    assert (names(found), found.applied) == (["api", "web"], 1)


def serves(entries: list[Entry]) -> tuple[Store, Playback]:
    found = Playback(opened(to_octets(entries)))
    store = make_store()
    store.apply(found.begin(0.0))
    store.apply(found.go_to(inf, 0.0))
    return store, found


def test_an_object_that_is_none_ends_it() -> None:
    event = ObjectEvent(1.0, TIME, "ADDED", to_raw(DB_SERVICE))
    broken = ObjectEvent(2.0, TIME, "ADDED")
    store, found = serves([*state_of(WEB_SERVICE, at=0.0), event, broken, event])
    assert (store.serves, names(found)) == (True, ["db", "web"])
    assert found.recording.problem.startswith(
        "FILE is broken at line 5: an object cannot be read: "
    )


def test_a_first_state_that_was_cut_is_served() -> None:
    store, found = serves(state_of(WEB_SERVICE, DB_SERVICE, at=0.0)[:-1])
    assert (store.serves, names(found)) == (True, ["db", "web"])
    assert found.recording.problem == "FILE has no end after line 3: its recorder was killed, or the file was cut"  # fmt: skip


def test_nothing() -> None:
    store, found = serves([END])
    assert (store.serves, found.is_over, found.recording.end) == (False, True, END)
