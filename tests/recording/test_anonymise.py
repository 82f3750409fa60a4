"""Entries without the names and addresses of a cluster."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Sequence
from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from msgspec import structs

from hsdns.cluster.address import address_of, dashed, pack_address, read_address
from hsdns.cluster.answer import ClusterAnswers
from hsdns.cluster.lookup import NameLookup, NoSuchName
from hsdns.cluster.objects import (
    CHANGE_TIME,
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
from hsdns.recording.reader import read_lines
from hsdns.wire.message import Reply
from hsdns.wire.name import Name
from tests import strategies
from tests.recording.recorded import END, HEADER, make_store, opened, query, to_octets
from tests.support.cluster.objects import endpoint_slice, namespace, service, upserts
from tests.support.effort import tries
from tests.support.tables import columns

PSEUDONYMS = Path(__file__).with_name("tables.txt")
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


def text_of(octets: bytes) -> str:
    return "\n".join(line.decode() for line in read_lines(io.BytesIO(octets)))


def test_no_name_or_address_is_left_in_the_text() -> None:
    header = structs.replace(HEADER, source="https://orchard.test:6443", kubernetes=[["pods", "verified"], ["namespaces", "orchard"]])  # fmt: skip
    plain = text_of(to_octets(recording(), header)).lower()
    assert {each for each in SECRET if each not in plain} == set()
    hides = Anonymiser(b"k")
    hidden = hides(header)
    assert isinstance(hidden, Header)
    text = text_of(to_octets(map(hides, recording()), hidden))
    words = set(re.findall(r"[a-z0-9]+", text.lower()))
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
def test_answers_are_of_the_same_form(
    cluster: Sequence[Object], pods: str, pod_names: bool, zonal: bool, seed: int
) -> None:
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


@pytest.mark.parametrize(("text", "form"), columns(PSEUDONYMS, "names"))
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


@pytest.mark.parametrize(("text", "form"), columns(PSEUDONYMS, "addresses"))
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


def test_a_label_that_is_too_long_stays_so() -> None:
    found = make()
    assert len(found.text("y" * 64)) == 64
    assert len(found.text("y" * 63)) == 13
    assert found.text("y" * 64 + ".org").count(".") == 1


def test_a_name_of_an_object_with_many_labels() -> None:
    assert len(make().text("a." * 100 + "b")) < 254
    assert LABEL.fullmatch(make().text("a." * 100 + "b").rstrip("."))


# Entries as lines of JSON and back, and from the streams of a control API.

TABLES = Path(__file__).with_name("tables.txt")
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
