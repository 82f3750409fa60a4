"""Reading a recording, as far as it is whole."""

from __future__ import annotations

from pathlib import Path

import pytest

from hsdns.recording.entry import Entry, Header, to_line
from hsdns.recording.reader import BadRecording, read_queries
from tests.recording.recorded import END, HEADER, opened, query, recorded, to_octets
from tests.support.cluster.objects import service, upserts

WEB = upserts(service("shop/web", "10.96.7.7"))
DB = upserts(service("shop/db", "10.96.7.8"))
ENTRIES: list[Entry] = [*recorded(WEB, [DB])[:-1], query(1.5), END]


def lines(*more: bytes) -> bytes:
    """A recording without compression."""
    return b"".join([to_line(HEADER), *map(to_line, ENTRIES[:-1]), *more])


def test_a_whole_recording() -> None:
    recording = opened(to_octets(ENTRIES))
    assert recording.header == HEADER
    assert list(map(to_line, recording)) == list(map(to_line, ENTRIES))
    assert recording.problem == ""


def test_without_queries() -> None:
    found = list(opened(to_octets(ENTRIES)).without_queries())
    assert [type(each).__name__ for each in found] == ["RecordedObject", "State", "ObjectEvent", "End"]  # fmt: skip


def test_a_file_without_compression() -> None:
    recording = opened(lines(to_line(END)))
    assert [type(each).__name__ for each in recording][-2:] == ["RecordedQuery", "End"]
    assert recording.problem == ""


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
