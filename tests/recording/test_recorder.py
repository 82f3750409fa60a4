"""The entries of a recording, from the streams of a control door."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest

from hsdns.recording.entry import (
    Gap,
    ObjectEvent,
    RecordedObject,
    RecordedQuery,
    Share,
    State,
    to_line,
    to_raw,
)
from hsdns.recording.recorder import Recorder, RecordingWriter
from tests.recording.recorded import END, HEADER, opened, query
from tests.support.cluster.objects import service

TIME = "2026-01-01T00:00:00.000+00:00"
WEB = to_raw(service("shop/web", "10.96.7.7"))
STATE = to_line(State(100.5, TIME, 1, serves=True))


def query_of_recorder(at: float, **others: Any) -> bytes:
    """A line of /v1/queries."""
    return json.dumps({
        "time": TIME, "at": at, "server": "dns://:53", "client": "10.244.0.7", "transport": "udp", "name": "web.", "type": "A",
        "rcode": "NOERROR", "duration_ms": 0.5, "answered_by": "table", "size": 60, "truncated": False, **others,
    }).encode()  # fmt: skip


def share(at: float, part: float) -> bytes:
    return json.dumps({"time": TIME, "at": at, "share": part}).encode()


def begun() -> Recorder:
    recorder = Recorder()
    recorder.header(to_line(HEADER))
    recorder.watched(to_line(RecordedObject(WEB)))
    recorder.watched(STATE)
    return recorder


def test_places_count_from_the_first_state() -> None:
    recorder = Recorder()
    assert recorder.header(to_line(HEADER)) == HEADER
    assert recorder.queried(query_of_recorder(100.0)) is None
    assert isinstance(recorder.watched(to_line(RecordedObject(WEB))), RecordedObject)
    before = recorder.has_begun
    assert recorder.watched(STATE) == State(0.0, TIME, 1, serves=True)
    assert (before, recorder.has_begun) == (False, True)
    event = recorder.watched(to_line(ObjectEvent(101.75, TIME, "ADDED", WEB)))
    assert isinstance(event, ObjectEvent)
    assert event.at == 1.25
    found = recorder.queried(query_of_recorder(103.0))
    assert found == RecordedQuery(2.5, TIME, "10.244.0.7", "udp", "web.", "A", "NOERROR", 0.5, "table", 60, server="dns://:53")  # fmt: skip
    early = recorder.queried(
        query_of_recorder(100.25)
    )  # was answered before the state, and told after it
    assert isinstance(early, RecordedQuery)
    assert early.at == 0.0
    assert recorder.watched(to_line(Gap(104.0, TIME, 7))) == Gap(3.5, TIME, 7)
    counted = recorder.objects, recorder.events, recorder.lost, recorder.queries, recorder.seconds
    assert counted == (1, 1, 7, 2, 3.5)


def test_a_share_is_recorded_when_it_changes() -> None:
    recorder = begun()
    found = [recorder.queried(share(101.0, part)) for part in (1.0, 0.25, 0.25, 1.0)]
    assert found == [None, Share(0.5, TIME, 0.25), None, Share(0.5, TIME, 1.0)]
    assert (recorder.share, recorder.queries) == (0.25, 0)


@pytest.mark.parametrize("line", [b"", b"{}", b'{"entry":"gap"}', b"hello"])
def test_lines_that_are_none(line: bytes) -> None:
    recorder = begun()
    for read in (recorder.header, recorder.watched, recorder.queried):
        with pytest.raises(ValueError, match="it is no "):
            read(line)
    with pytest.raises(ValueError, match="it is no header"):
        recorder.header(STATE)


# Writing a recording.


def test_what_was_flushed_is_in_the_file() -> None:
    file = io.BytesIO()
    writer = RecordingWriter(file, HEADER)
    assert opened(file.getvalue()).header == HEADER
    writer.add([query(1.0), query(2.0)])
    writer.flush()
    assert list(opened(file.getvalue())) == [query(1.0), query(2.0)]
    writer.add([END])
    writer.flush()
    assert list(opened(file.getvalue())) == [query(1.0), query(2.0), END]
    assert writer.size == len(file.getvalue())
