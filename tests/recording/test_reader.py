"""Reading a recording, as far as it is whole."""

from __future__ import annotations

import io
from itertools import islice
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hsdns.recording import frames
from hsdns.recording.entry import Entry, Gap, Header, State, to_line
from hsdns.recording.frames import FRAME, MAGIC, Damaged, FrameWriter, read_lines, zstd
from hsdns.recording.reader import BadRecording, Summary, read_queries, summarise
from tests.recording.recorded import END, HEADER, opened, query, recorded, to_octets
from tests.support.cluster.objects import deletes, service, upserts

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
        (b'{"format":"hsdns recording","version":2,"entry":7}\n', "FILE is a recording of version 2, and hsdns 0.1.0 reads version 1; use the hsdns that recorded it"),
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
    monkeypatch.setattr(frames, "MAX_LINE", 1_000_000)
    octets = zstd.ZstdCompressor().compress(b"x" * 50_000_000, mode=zstd.ZstdCompressor.FLUSH_FRAME)
    assert len(octets) < 10_000
    found, problem = read(octets)
    assert found == []
    assert problem.startswith("has a line of more than 1000000 octets before octet ")
