"""Writing a recording."""

from __future__ import annotations

import io

from hsdns.recording.entry import Entry
from hsdns.recording.frames import MAGIC
from hsdns.recording.recorder import RecordingWriter
from tests.recording.recorded import END, HEADER, opened, query


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


def test_the_header_is_in_a_frame_of_its_own() -> None:
    file = io.BytesIO()
    writer = RecordingWriter(file, HEADER)
    size = writer.size
    nothing: list[Entry] = []
    writer.add(nothing)
    writer.flush()
    assert writer.size == size
    writer.add([END])
    writer.flush()
    assert file.getvalue()[size : size + 4] == MAGIC
