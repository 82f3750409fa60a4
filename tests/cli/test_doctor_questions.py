"""Which names the doctor asks for."""

from __future__ import annotations

import pytest

from hsdns.cli.doctor_questions import MOST, doctor_questions
from hsdns.wire.iana import type_to_text
from tests.support.cluster.kubernetes_plugin import Cluster
from tests.support.cluster.objects import endpoint_slice, service

API = "kubernetes.default A"
OBJECTS = (
    service("testns/web", "10.0.0.1", ports=["http/TCP/80"]),
    service("testns/db", ports=["pg/TCP/5432"]),
    endpoint_slice("testns/db-1", "db", "172.16.0.1 host=db-0", "172.16.0.2 host=db-1"),
    service("testns/idle"),
)


def asked(target: str, *addresses: str, zones: str = "cluster.local 10.in-addr.arpa") -> list[str]:
    answers = Cluster(*OBJECTS, zones=zones).plugin.answer_set()
    return [
        f"{each.name.to_text().removesuffix('.svc.cluster.local.')} {type_to_text(each.qtype)}"
        for each in doctor_questions(answers, target, addresses)
    ]


@pytest.mark.parametrize(
    ("target", "addresses", "names"),
    [
        ("", [], [API]),
        ("testns", [], [API]),
        ("testns/none", [], [API]),
        ("testns/web", [], [API, "web.testns A", "_http._tcp.web.testns SRV"]),
        ("testns/idle", [], [API, "idle.testns A"]),
        ("testns/pod", ["172.16.0.1"], [API, "db.testns A", "db-0.db.testns A"]),
        ("testns/pod", ["172.16.0.9"], [API]),
    ],
)
def test_names(target: str, addresses: list[str], names: list[str]) -> None:
    found = asked(target, *addresses)
    assert [each for each in found if not each.endswith(".testns SRV") or each in names] == names


def test_reverse_zones_have_none_of_these_names() -> None:
    assert asked("testns/web", zones="10.in-addr.arpa") == []


def test_there_are_not_too_many() -> None:
    addresses = [f"172.16.1.{number} host=db-{number}" for number in range(2 * MOST)]
    objects = (service("testns/db"), endpoint_slice("testns/db-1", "db", *addresses))
    answers = Cluster(*objects).plugin.answer_set()
    assert len(doctor_questions(answers, "testns/db", [])) == MOST
