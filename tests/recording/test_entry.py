"""Entries as lines of JSON and back."""

from __future__ import annotations

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
)
from hsdns.recording.entry import (
    End,
    Entry,
    Gap,
    Header,
    ObjectEvent,
    RecordedObject,
    Share,
    State,
    read_line,
    read_object,
    reduced,
    to_line,
    to_raw,
)
from tests.recording.recorded import query
from tests.support.cluster.objects import endpoint_slice, service

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


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        (b'{"entry":"gap"', "it is no entry of a recording"),
        (b"[]", "it is no entry of a recording"),
        (b'{"at":1}', "it is no entry of a recording: "),
        (b'{"entry":"gap","at":"x"}', "it is no entry of a recording: Expected `float`, got `str` - at `$.at`"),
        (b'{"entry":"gap","at":\xff}', "it is no entry of a recording"),
    ],
)  # fmt: skip
def test_lines_that_are_none(line: bytes, sentence: str) -> None:
    with pytest.raises(ValueError) as caught:  # noqa: PT011 - the sentence is compared
        read_line(line)
    assert str(caught.value).startswith(sentence)


@pytest.mark.parametrize(
    ("raw", "sentence"),
    [
        (b'{"kind":"Secret","metadata":{}}', "an object is none of Service, EndpointSlice, Namespace, Pod, ServiceImport"),
        (b"{}", "an object is none of Service, EndpointSlice, Namespace, Pod, ServiceImport"),
        (b'{"kind":"Pod"}', "an object cannot be read: Object missing required field `metadata`"),
        (b"7", "an object cannot be read: Expected `object`, got `int`"),
    ],
)  # fmt: skip
def test_objects_that_are_none(raw: bytes, sentence: str) -> None:
    with pytest.raises(ValueError) as caught:  # noqa: PT011 - the sentence is compared
        read_object(msgspec.Raw(raw))
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
