"""Entries without the names and addresses of a cluster."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Sequence
from ipaddress import ip_address, ip_network
from itertools import islice
from math import inf
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from msgspec import structs

from hsdns import __version__
from hsdns.cluster.address import address_of, dashed, pack_address, read_address
from hsdns.cluster.answer import ClusterAnswers
from hsdns.cluster.lookup import NameLookup, NoSuchName
from hsdns.cluster.objects import (
    CHANGE_TIME,
    Deleted,
    Event,
    LoadBalancerIngress,
    LoadBalancerStatus,
    Namespace,
    Object,
    ObjectMeta,
    Pod,
    PodCondition,
    PodNames,
    PodStatus,
    ServiceImport,
    ServiceImportSpec,
    ServicePort,
    ServiceStatus,
    Synced,
    read_object,
)
from hsdns.cluster.store import Store, StoreSettings
from hsdns.recording import reader
from hsdns.recording.anonymise import Anonymiser, Pseudonyms
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
from hsdns.wire.message import Reply
from hsdns.wire.name import Name
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
from tests.support.cluster.objects import deletes, endpoint_slice, namespace, service, upserts
from tests.support.effort import tries
from tests.support.tables import columns, values

TABLES = Path(__file__).with_name("tables.txt")
ZONES = ("cluster.local.", "in-addr.arpa.", "ip6.arpa.")
TIME = "2026-01-01T00:00:00.000+00:00"


def anonymiser(key: bytes = b"k") -> Anonymiser:
    found = Anonymiser(key)
    found(structs.replace(HEADER, zones=list(ZONES)))
    return found


# Each label once, and none that is part of another word.
OBJECTS: list[Object] = [
    namespace("orchard", {"team": "pomology"}),
    structs.replace(
        service("orchard/cider", "198.51.100.7", "2001:db8::7", ports=["pressing/TCP/80"]),
        status=ServiceStatus(
            LoadBalancerStatus([LoadBalancerIngress("203.0.113.9", "lb.cidery.test")])
        ),
    ),
    service("orchard/supplier", external="barrels.cooper.test"),
    structs.replace(
        endpoint_slice("orchard/cider-abcde", "cider", "198.51.100.8 host=keg-0 pod=cider-keg-0"),
        ports=None,
    ),
    endpoint_slice("orchard/tanks-1", None, "vat.cooper.test", address_type="FQDN"),
    Pod(
        ObjectMeta("cider-keg-0", "orchard", labels={"variety": "boskoop"}),
        PodStatus("198.51.100.8", "Running", [PodCondition("Ready", "True", "Fermented")]),
        PodNames("keg-0", "cider"),
    ),
    ServiceImport(
        ObjectMeta("perry", "orchard"),
        ServiceImportSpec("ClusterSetIP", ["198.51.100.44"], [ServicePort(80, "pouring", target_port="spout")]),
    ),
]  # fmt: skip
SECRET = {
    "orchard", "team", "pomology", "cider", "pressing", "supplier", "barrels", "cooper", "keg", "abcde", "tanks", "vat",
    "variety", "boskoop", "fermented", "perry", "pouring", "spout", "lb", "cidery", "198", "203", "db8", "cellar", "harvest",
}  # fmt: skip


def recording() -> list[Entry]:
    objects: list[Entry] = [RecordedObject(to_raw(each)) for each in OBJECTS]
    return [
        *objects,
        State(0.0, TIME, len(OBJECTS), serves=True),
        *(ObjectEvent(1.0, TIME, "MODIFIED", to_raw(each)) for each in OBJECTS),
        ObjectEvent(1.0, TIME, "SYNCED"),
        query(1.0, "_pressing._tcp.cider.orchard.svc.cluster.local.", server="dns://198.51.100.1:53"),
        query(1.0, "198-51-100-8.cider.orchard.svc.cluster.local."),
        query(1.0, "8.100.51.198.in-addr.arpa."),
        query(1.0, "cellar.harvest.test."),
        structs.replace(query(1.0, "."), client="198.51.100.8"),
        Share(2.0, TIME, 0.5),
        Gap(3.0, TIME, 1),
        END,
    ]  # fmt: skip


def test_no_name_or_address_is_left_in_the_text() -> None:
    header = structs.replace(HEADER, source="https://orchard.test:6443", kubernetes=[["pods", "verified"], ["namespaces", "orchard"]])  # fmt: skip
    plain = b"\n".join(read_lines(io.BytesIO(to_octets(recording(), header)))).decode().lower()
    assert {each for each in SECRET if each not in plain} == set()
    hides = Anonymiser(b"k")
    hidden = hides(header)
    assert isinstance(hidden, Header)
    text = b"\n".join(read_lines(io.BytesIO(to_octets(map(hides, recording()), hidden))))
    words = set(re.findall(r"[a-z0-9]+", text.decode().lower()))
    assert words & SECRET == set()
    assert hidden.anonymised
    assert (hidden.zones, hidden.kubernetes[0]) == (header.zones, ["pods", "verified"])


def test_a_recording_can_be_replayed_with_its_questions() -> None:
    hides = anonymiser()
    entries = [hides(each) for each in recording()]
    found = Playback(opened(to_octets(entries)))
    store = make_store(StoreSettings(multicluster=True))
    store.apply(found.begin(0.0))
    assert (len(store.services.values), len(store.imports.values)) == (2, 1)
    asked = [each.name for each in entries if isinstance(each, RecordedQuery)]
    shapes = [shape(store, Name.from_text(name), 1) for name in asked[:2]]
    assert shapes == [(0, [(1, 5)], [], []), None]


def shape(store: Store, qname: Name, qtype: int, **options: Any) -> Any:
    """Rcode, and type and TTL of the records of each section; None if there is no such name."""
    zone = qname.longest_of(map(Name.from_text, ZONES))
    if zone is None:
        return "outside"
    lookup = NameLookup(store, primary_zone=Name.from_text(ZONES[0]), ttl=5, **options)
    try:
        reply = ClusterAnswers(lookup).answer_at_once(qname, qtype, zone)
    except NoSuchName:
        return None
    if not isinstance(reply, Reply):
        return len(reply)
    return reply.rcode, *(
        sorted((each.rrtype, each.ttl) for each in section)
        for section in (reply.answer, reply.authority, reply.additional)
    )


# Making a cluster smaller takes minutes, more than a test may.
@settings(max_examples=tries(10), phases=[Phase.explicit, Phase.reuse, Phase.generate])
@given(strategies.clusters(), st.sampled_from(["disabled", "insecure", "verified"]), st.booleans(), st.booleans(), st.integers(0, 999))  # fmt: skip
def test_answers_are_of_the_same_form(cluster: Sequence[Object], pods: str, pod_names: bool, zonal: bool, seed: int) -> None:  # fmt: skip
    """For every question that a cluster has something to do with."""
    hides = anonymiser()
    chosen = StoreSettings(endpoint_pod_names=pod_names, zonal=zonal)
    plain, hidden = make_store(chosen), make_store(chosen)
    plain.apply([*upserts(*cluster), Synced()])
    hidden.apply([*upserts(*map(hides.object, cluster)), Synced()])
    for qname, qtype in strategies.questions(seed, cluster, ZONES, 60):
        other = hides._names.name(qname)
        expected = shape(plain, qname, qtype, pods=pods, zonal=zonal)
        assert shape(hidden, other, qtype, pods=pods, zonal=zonal) == expected, (qname, other)


# Names and addresses that stand for others.

ZONES_PSEUDONYM = tuple(map(Name.from_text, ("cluster.local.", "in-addr.arpa.", "ip6.arpa.")))
LABEL = re.compile(r"x[a-z2-7]{12}")
packed = st.binary(min_size=4, max_size=4) | st.binary(min_size=16, max_size=16)


def make(key: bytes = b"k", zones: tuple[Name, ...] = ZONES_PSEUDONYM) -> Pseudonyms:
    return Pseudonyms(key, zones)


def of(text: str, found: Pseudonyms | None = None) -> str:
    return (found or make()).name(Name.from_text(text)).to_text()


@pytest.mark.parametrize(("text", "form"), columns(TABLES, "names"))
def test_the_form_of_a_name_stays(text: str, form: str) -> None:
    assert LABEL.sub("x", of(text)) == form


@given(strategies.related_names(), strategies.related_names())
def test_other_names_become_other_names(one: Name, other: Name) -> None:
    found = make()
    assert (found.name(one) == found.name(other)) is (one == other)


@given(st.lists(packed, unique=True, max_size=40))
def test_addresses(addresses: list[bytes]) -> None:
    """Each becomes another one of its family, in all the forms that it has."""
    found = make()
    others = {}
    for each in addresses:
        text = str(ip_address(each))
        canonical = read_address(text)
        assert canonical is not None
        other = found.address(text)
        assert other is not None
        read = read_address(other)
        assert read is not None
        assert (len(read[0]), read[1]) == (len(canonical[0]), canonical[1])
        if any(canonical[0]):
            own = ip_network("10.0.0.0/8" if len(read[0]) == 4 else "fd00::/8")
            assert ip_address(read[0]) in own
        if not canonical[1]:
            continue  # IPv4-mapped
        others[canonical[0]] = read[0]
        assert found.label(dashed(each)) == dashed(read[0])
        name = f"{'.'.join(map(str, reversed(each)))}.in-addr.arpa." if len(each) == 4 else f"{'.'.join(reversed(each.hex()))}.ip6.arpa."  # fmt: skip
        assert address_of(Name.from_text(of(name, found))) == (read[0] if any(each) else address_of(Name.from_text(of(name, found))))  # fmt: skip
    assert len(set(others.values())) == len(others)


@pytest.mark.parametrize(("text", "form"), columns(TABLES, "addresses"))
def test_the_form_of_an_address_stays(text: str, form: str) -> None:
    found = make()
    other = found.address(text)
    assert other is not None
    assert re.fullmatch(form, other)
    same, canonical = read_address(other), pack_address(found.address(str(ip_address(pack_address(text) or b""))) or "")  # fmt: skip
    assert same is not None
    assert same[0] == canonical
    assert same[1] is (read_address(text) or (b"", None))[1]


def test_what_a_served_reverse_zone_has_of_an_address_stays() -> None:
    zones = tuple(map(Name.from_text, ("2.0.192.in-addr.arpa.", "168.192.in-addr.arpa.", "8.b.d.0.1.0.0.2.ip6.arpa.", "x.ip6.arpa.")))  # fmt: skip
    found = make(zones=zones)
    for text, begin in [("192.0.2.7", "192.0.2."), ("192.168.1.1", "192.168."), ("8.8.8.8", "10."), ("2001:db8::1", "2001:db8:")]:  # fmt: skip
        assert (found.address(text) or "").startswith(begin)
    every = {found.address(f"192.0.2.{last}") for last in range(256)}
    assert len(every) == 256
    assert of("1.168.192.in-addr.arpa.", found).endswith(".168.192.in-addr.arpa.")


def test_long_texts() -> None:
    """A label that is too long stays so; a name of an object may have many labels."""
    found = make()
    assert [len(found.text("y" * each)) for each in (64, 63)] == [64, 13]
    assert found.text("y" * 64 + ".org").count(".") == 1
    assert len(found.text("a." * 100 + "b")) < 254
    assert LABEL.fullmatch(make().text("a." * 100 + "b").rstrip("."))


# Entries as lines of JSON and back, and from the streams of a control API.

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
NOTES = {CHANGE_TIME: "2026-01-01T00:00:00Z", "note": "secret"}
META = ObjectMeta("web", "shop", "7", "3f2c", LABELS, NOTES, "now")
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
def test_metadata(found: Object, labels: dict[str, str] | None, annotations: dict[str, str] | None) -> None:  # fmt: skip
    given = structs.replace(found, metadata=META)
    expected = ObjectMeta("web", "shop", "7", "", labels, annotations, "now")
    assert reduced(given) == structs.replace(found, metadata=expected)


# --- the entries of a recording, from the streams of a control API ---

RAW = to_raw(WEB)
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
    early = recorder.queried(query_of_recorder(100.25))  # answered before the state, told after it
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


# Reading a recording, as far as it is whole, and the course of a replay, with the clock of the test.

WEB_NAME = upserts(service("shop/web", "10.96.7.7"))
DB = upserts(service("shop/db", "10.96.7.8"))
RECORDED: list[Entry] = [*recorded(WEB_NAME, [DB])[:-1], query(1.5), END]


def lines(*more: bytes) -> bytes:
    """A recording without compression."""
    return b"".join([to_line(HEADER), *map(to_line, RECORDED[:-1]), *more])


def test_cut_at_any_octet_the_entries_before_are_read() -> None:
    octets = to_octets(RECORDED, flushes=True)
    counts: list[int] = []
    for cut in range(len(octets) + 1):
        try:
            recording = opened(octets[:cut])
        except BadRecording as error:
            assert not counts
            assert "before its first whole line" in str(error) or str(error) == "FILE is empty, so it is not a recording"  # fmt: skip
            continue
        found = list(recording)
        assert list(map(to_line, found)) == list(map(to_line, RECORDED[: len(found)]))
        assert (recording.problem == "") is (len(found) == len(RECORDED))
        counts.append(len(found))
    assert counts == sorted(counts)
    assert set(counts) == set(range(len(RECORDED) + 1))


@pytest.mark.parametrize(("more", "count", "problem"), values(TABLES, "where it ends"))
def test_where_it_ends(more: list[str], count: int, problem: str) -> None:
    octets = b"".join(to_line(END) if each == "END" else each.encode() for each in more)
    recording = opened(lines(octets))
    assert (len(list(recording)), recording.problem) == (count, problem)


@pytest.mark.parametrize(("text", "sentence"), values(TABLES, "files that are no recordings"))
def test_files_that_are_no_recordings(text: Any, sentence: str) -> None:
    """A text in JSON is a line; "cut" stands for the first octets of a recording."""
    line = text if isinstance(text, str) else f"{json.dumps(text)}\n"
    octets = to_octets([])[:9] if line == "cut" else line.encode("latin-1")
    with pytest.raises(BadRecording) as caught:
        opened(octets)
    assert str(caught.value) == sentence.replace("VERSION", __version__)


def test_the_queries_of_a_file(tmp_path: Path) -> None:
    path = tmp_path / "shop.rec"
    path.write_bytes(to_octets([query(1.0, "a."), *RECORDED[:-1], query(2.0, "b.")]) + b"more")
    assert [each.name for each in read_queries(str(path))] == ["a.", "web.shop.svc.cluster.local.", "b."]  # fmt: skip
    with pytest.raises(FileNotFoundError):
        list(read_queries(str(tmp_path / "none")))


def test_summary(tmp_path: Path) -> None:
    path = tmp_path / "shop.rec"
    begun = recorded(upserts(WEB), [deletes(WEB), upserts(WEB)])[:-1]
    more: list[Entry] = [Gap(3.0, "", 7), State(4.5, "", 0, serves=True), query(60.0)]
    entries: list[Entry] = [query(0.0), *begun, *more]
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
def test_of_a_file_cut_at_any_octet_what_was_flushed_before_is_read(done: list[int | None], data: st.DataObject) -> None:  # fmt: skip
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

WEB_SERVICE, DB_SERVICE, API_SERVICE = (service(f"shop/{name}", f"10.96.7.{at}") for at, name in enumerate(("web", "db", "api")))  # fmt: skip
# web at the start, db after 1 s, api after 2 s, no db after 3 s
SHOP = recorded(upserts(WEB_SERVICE), [upserts(DB_SERVICE), upserts(API_SERVICE), deletes(DB_SERVICE)])  # fmt: skip


def play(entries: list[Entry], *, speed: float = 1.0, is_paused: bool = False) -> Playback:
    """A replay that begins when the clock is at 100 s."""
    found = Playback(opened(to_octets(entries)), speed=speed, is_paused=is_paused)
    found.begin(100.0)
    return found


def names(found: Playback) -> list[str]:
    return sorted(each.metadata.name for each in found.objects.values())


settings_of_stores = st.builds(
    StoreSettings, noendpoints=st.just(False), pods=st.just(True), pod_labels=st.booleans(),
    endpoint_pod_names=st.booleans(), zonal=st.booleans(), multicluster=st.booleans(), not_ready=st.booleans(),
)  # fmt: skip


# Making a history smaller takes minutes, more than a test may.
@settings(max_examples=tries(12), phases=[Phase.explicit, Phase.reuse, Phase.generate])
@given(strategies.histories(), settings_of_stores, st.data())
def test_a_replay_has_the_state_that_was_recorded_after_each_event(history: list[Event], chosen: StoreSettings, data: st.DataObject) -> None:  # fmt: skip
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
    found = play(SHOP)  # to a place, and then on
    found.go_to(1.5, 100.0)
    assert (found.wait(100.0), found.applied) == (0.5, 1)


ADDED = ObjectEvent(1.0, TIME, "ADDED", to_raw(DB_SERVICE))
BROKEN = ObjectEvent(2.0, TIME, "ADDED")


def state_of(*objects: Object, at: float, serves: bool = True) -> list[Entry]:
    return [*(RecordedObject(to_raw(each)) for each in objects), State(at, TIME, len(objects), serves)]  # fmt: skip


def test_of_another_state_only_the_difference_is_delivered() -> None:
    changed = service("shop/web", "10.96.9.9")
    states = state_of(WEB_SERVICE, DB_SERVICE, at=0.0), state_of(changed, API_SERVICE, at=1.0)
    found = play([*states[0], *states[1], END])
    gone = Deleted(type(DB_SERVICE)(ObjectMeta("db", "shop")))
    assert found.due(101.0) == [gone, *upserts(changed, API_SERVICE), Synced()]
    assert (names(found), found.applied) == (["api", "web"], 1)


@pytest.mark.parametrize(
    ("entries", "serves", "found", "problem"),
    [
        pytest.param([*state_of(WEB_SERVICE, at=0.0), ADDED, BROKEN, ADDED], True, ["db", "web"], "FILE is broken at line 5: an object cannot be read: ", id="an object that is none"),
        pytest.param(state_of(WEB_SERVICE, DB_SERVICE, at=0.0)[:-1], True, ["db", "web"], "FILE has no end after line 3: its recorder was killed, or the file was cut", id="a first state that was cut"),
        pytest.param([END], False, [], "", id="nothing"),
    ],
)  # fmt: skip
def test_what_ends_it(entries: list[Entry], serves: bool, found: list[str], problem: str) -> None:
    played, store = Playback(opened(to_octets(entries))), make_store()
    store.apply(played.begin(0.0))
    store.apply(played.go_to(inf, 0.0))
    assert (store.serves, names(played)) == (serves, found)
    assert played.recording.problem.startswith(problem)
    assert (played.is_over, played.recording.end) == (True, None if problem else END)
