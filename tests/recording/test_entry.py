"""Entries as lines of JSON and back, and from the streams of a control API."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec import structs

from hsdns.cluster.objects import (
    CHANGE_TIME,
    Namespace,
    Object,
    ObjectMeta,
    Pod,
    PodStatus,
    read_object,
)
from hsdns.recording.cli import Recorder, RecordingWriter
from hsdns.recording.entry import (
    End,
    Entry,
    Gap,
    Header,
    ObjectEvent,
    RecordedObject,
    RecordedQuery,
    Share,
    State,
    read_line,
    reduced,
    to_line,
    to_raw,
)
from tests.recording.recorded import END, HEADER, opened, query
from tests.support.cluster.objects import endpoint_slice, service
from tests.support.tables import columns

TABLES = Path(__file__).with_name("tables.txt")
TIME = "2026-01-01T00:00:00.000+00:00"
WEB = service("shop/web", "10.96.7.7", ports=["http/TCP/80"])
ENTRIES: list[Entry] = [
    Header(zones=["cluster.local."], kubernetes=[["pods", "insecure"], ["noendpoints"]], anonymised=True),
    RecordedObject(to_raw(WEB)),
    State(0.5, TIME, 1, serves=True),
    ObjectEvent(1.25, TIME, "MODIFIED", to_raw(WEB)),
    ObjectEvent(1.5, TIME, "SYNCED"),
    query(2.0),
    query(2.0, rcode=None, truncated=True),
    Share(2.5, TIME, 0.25),
    Gap(3.0, TIME, 7),
    End(4.0, TIME, "interrupted"),
]  # fmt: skip


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda each: type(each).__name__)
def test_an_entry_is_read_as_it_was_written(entry: Entry) -> None:
    line = to_line(entry)
    assert line.startswith(b'{"entry":"')
    assert line.count(b"\n") == 1
    read = read_line(line)
    assert type(read) is type(entry)
    assert msgspec.json.encode(read) == msgspec.json.encode(entry)


def test_entries_and_fields_of_later_versions_are_passed_over() -> None:
    assert read_line(b'{"entry":"weather","at":1}') is None
    line = to_line(ENTRIES[8]).replace(b"{", b'{"colour":"red",', 1)
    assert read_line(line) == ENTRIES[8]


@pytest.mark.parametrize(("line", "sentence"), columns(TABLES, "lines that are none"))
def test_lines_that_are_none(line: str, sentence: str) -> None:
    with pytest.raises(ValueError) as caught:  # noqa: PT011 - the sentence is compared
        read_line(line.encode("latin-1"))
    assert str(caught.value).startswith(f"it is not an entry of a recording{sentence}")


@pytest.mark.parametrize(("raw", "sentence"), columns(TABLES, "objects that are none"))
def test_objects_that_are_none(raw: str, sentence: str) -> None:
    with pytest.raises(ValueError) as caught:  # noqa: PT011 - the sentence is compared
        read_object(msgspec.Raw(raw.encode()))
    assert str(caught.value) == sentence


# What of an object is recorded.


LABELS = {"app": "web", "kubernetes.io/service-name": "web", "multicluster.kubernetes.io/service-name": "w"}  # fmt: skip
META = ObjectMeta(
    "web", "shop", "7", "3f2c", LABELS, {CHANGE_TIME: "2026-01-01T00:00:00Z", "note": "secret"}, "now"
)  # fmt: skip
OWNERS = {name: text for name, text in LABELS.items() if name != "app"}


@pytest.mark.parametrize(
    ("found", "labels", "annotations"),
    [
        (service("shop/web", "10.96.7.7"), None, None),
        (Namespace(META), None, None),
        (Pod(META, PodStatus("10.0.0.1")), LABELS, None),
        (endpoint_slice("shop/web-1", "web", "10.0.0.1"), OWNERS, {CHANGE_TIME: "2026-01-01T00:00:00Z"}),
    ],
)  # fmt: skip
def test_metadata(
    found: Object, labels: dict[str, str] | None, annotations: dict[str, str] | None
) -> None:
    given = structs.replace(found, metadata=META)
    expected = ObjectMeta("web", "shop", "7", "", labels, annotations, "now")
    assert reduced(given) == structs.replace(found, metadata=expected)


# --- the entries of a recording, from the streams of a control API ---

RAW = to_raw(service("shop/web", "10.96.7.7"))
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
    recorder.watched(to_line(RecordedObject(RAW)))
    recorder.watched(STATE)
    return recorder


def test_places_count_from_the_first_state() -> None:
    recorder = Recorder()
    assert recorder.header(to_line(HEADER)) == HEADER
    assert recorder.queried(query_of_recorder(100.0)) is None
    assert isinstance(recorder.watched(to_line(RecordedObject(RAW))), RecordedObject)
    before = recorder.has_begun
    assert recorder.watched(STATE) == State(0.0, TIME, 1, serves=True)
    assert (before, recorder.has_begun) == (False, True)
    event = recorder.watched(to_line(ObjectEvent(101.75, TIME, "ADDED", RAW)))
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
def test_lines_of_no_stream(line: bytes) -> None:
    recorder = begun()
    for read in (recorder.header, recorder.watched, recorder.queried):
        with pytest.raises(ValueError, match="it is not "):
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
