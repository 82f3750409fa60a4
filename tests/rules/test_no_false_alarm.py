"""Manifests that are right, however they look: no rule finds an error or a warning in them; and what is found in others."""

from __future__ import annotations

from ipaddress import ip_address
from pathlib import Path

import pytest

from hsdns.corefile.mounted import COREFILE
from hsdns.rules.judging import judge, read_files
from hsdns.rules.rule import Finding
from hsdns.wire.encode import MAX_TCP_LEN, encode
from hsdns.wire.iana import RRType
from hsdns.wire.message import RR, TC, Query, Reply
from hsdns.wire.name import Name
from tests.support.tables import Row, rows

HERE = Path(__file__).parent
SERVICE = "{apiVersion: v1, kind: Service, metadata: {name: db, namespace: lab}, spec: %s}\n---\n"


def findings(text: str, file: str = "a.yaml", *, is_whole: bool = False) -> list[Finding]:
    read = read_files([(file, text.encode())], is_whole=is_whole)
    assert read.unread == []
    return judge(read.objects, read.silences, preview=True).findings


@pytest.mark.parametrize("row", rows(HERE / "right.txt"))
def test_nothing_is_found(row: Row, request: pytest.FixtureRequest) -> None:
    is_corefile = "[Corefile:" in request.node.name
    found = findings(row.given, COREFILE if is_corefile else "a.yaml")
    assert [str(each) for each in found if each.level != "note"] == []
    if "kubeadm" in request.node.name:
        assert found == []


@pytest.mark.parametrize("row", rows(HERE / "found.txt"))
def test_what_is_found(row: Row, request: pytest.FixtureRequest) -> None:
    said = list[str]()
    for each in findings(row.given, is_whole="[whole" in request.node.name):
        edit = each.remark.edit
        said += [str(each), *([f"edit {edit.text}"] if edit is not None else [])]
    assert said == row.expected


def slice_of(family: str, count: int) -> str:
    first = ip_address("10.0.0.1" if family == "IPv4" else "fd00::1")
    endpoints = ", ".join(f'{{addresses: ["{first + number}"]}}' for number in range(count))
    labels = "{kubernetes.io/service-name: db}"
    return (
        "{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, metadata: "
        f"{{name: db-{family.lower()}, namespace: lab, labels: {labels}}}, "
        f"addressType: {family}, endpoints: [{endpoints}]}}\n---\n"
    )


def test_48_addresses_of_two_families() -> None:
    both = "{clusterIP: None, ipFamilyPolicy: RequireDualStack, ipFamilies: [IPv4, IPv6]}"
    text = SERVICE % both + slice_of("IPv4", 24) + slice_of("IPv6", 24)
    assert [str(each) for each in findings(text) if each.level != "note"] == []


@pytest.mark.parametrize(
    ("family", "count", "found"),
    [("IPv4", 4093, []), ("IPv4", 4094, ["HS157"]), ("IPv6", 2339, []), ("IPv6", 2340, ["HS157"])],
)
def test_the_answer_that_is_said_to_be_cut_off_is(
    family: str, count: int, found: list[str]
) -> None:
    codes = [
        each.rule.code for each in findings(SERVICE % "{clusterIP: None}" + slice_of(family, count))
    ]
    assert [each for each in codes if each == "HS157"] == found
    owner = Name.from_text("db.lab.svc.cluster.local.")
    rrtype, octets = (RRType.A, 4) if family == "IPv4" else (RRType.AAAA, 16)
    records = tuple(RR(owner, rrtype, 5, at.to_bytes(octets)) for at in range(count))
    wire = owner.wire + rrtype.to_bytes(2) + (1).to_bytes(2)
    reply = encode(Query(1, 0, owner, rrtype, 1, wire), Reply(answer=records), MAX_TCP_LEN)
    assert bool(reply[2] & TC >> 8) is bool(found)


def test_a_slice_may_be_over_full() -> None:
    levels = [each.level for each in findings(slice_of("IPv4", 1001)) if each.rule.code == "HS156"]
    assert levels == ["error"]


@pytest.mark.parametrize(("count", "found"), [(1000, []), (1001, ["HS153"])])
def test_endpoints_that_are_mirrored_in_part(count: int, found: list[str]) -> None:
    listed = ", ".join(f"{{ip: 10.0.{at >> 8}.{at & 255}}}" for at in range(count))
    meta = "{name: db, namespace: lab}"
    text = f"{{apiVersion: v1, kind: Endpoints, metadata: {meta}, subsets: [{{addresses: [{listed}]}}]}}\n"
    codes = [each.rule.code for each in findings(SERVICE % "{}" + text)]
    assert [each for each in codes if each == "HS153"] == found
