"""Which names the doctor asks for."""

from __future__ import annotations

import pytest

from hsdns.doctor.servers import COMMON, MOST, OWN, WITNESSES, doctor_questions
from hsdns.load.questions import Question
from hsdns.wire.iana import RRType, type_to_text
from tests.support.cluster.kubernetes_plugin import Cluster
from tests.support.cluster.objects import endpoint_slice, service

API = "kubernetes.default A"
BOTH = (
    "web.testns A",
    "db.testns A",
)  # that tell this cluster from others, first those with a cluster IP
OBJECTS = (
    service("testns/web", "10.0.0.1", ports=["http/TCP/80"]),
    service("testns/db", ports=["pg/TCP/5432"]),
    endpoint_slice("testns/db-1", "db", "172.16.0.1 host=db-0", "172.16.0.2 host=db-1"),
    service("testns/idle"),
)


def asked(target: str, *addresses: str, zones: str = "cluster.local 10.in-addr.arpa") -> list[str]:
    answers = Cluster(*OBJECTS, zones=zones).plugin.answer_set()
    found = doctor_questions(answers, target, addresses)
    assert all((each.group == OWN) == is_own(each) for each in found)
    return [
        f"{each.name.to_text().removesuffix('.svc.cluster.local.')} {type_to_text(each.qtype)}"
        for each in found
    ]


def is_own(question: Question) -> bool:
    """Whether only this cluster knows what is right: names in SRV records are those of any."""
    name = question.name.to_text()
    return question.qtype == RRType.A and not name.startswith(("kubernetes.default", "idle."))


@pytest.mark.parametrize(
    ("target", "addresses", "names"),
    [
        ("", [], [API, *BOTH]),
        ("testns", [], [API, *BOTH]),
        ("testns/none", [], [API, *BOTH]),
        ("testns/web", [], [API, "web.testns A", "_http._tcp.web.testns SRV", "db.testns A"]),
        ("testns/idle", [], [API, "idle.testns A", *BOTH]),
        ("testns/pod", ["172.16.0.1"], [API, "db-0.db.testns A", *BOTH]),
        ("testns/pod", ["172.16.0.9"], [API, *BOTH]),
    ],
)
def test_names(target: str, addresses: list[str], names: list[str]) -> None:
    found = asked(target, *addresses)
    assert [each for each in found if not each.endswith(".testns SRV") or each in names] == names


def test_reverse_zones_have_none_of_these_names() -> None:
    assert asked("testns/web", zones="10.in-addr.arpa") == []


def test_there_are_not_too_many() -> None:
    addresses = [f"172.16.1.{number} host=db-{number}" for number in range(2 * MOST)]
    others = [service(f"testns/web-{number}", f"10.0.0.{number}") for number in range(1, 9)]
    slices = endpoint_slice("testns/db-1", "db", *addresses)
    answers = Cluster(service("testns/db"), slices, *others).plugin.answer_set()
    assert len(doctor_questions(answers, "testns/db", [])) == MOST
    assert len(doctor_questions(answers, "", [])) == 1 + WITNESSES


@pytest.mark.parametrize(
    ("key", "of_dns", "groups"),
    [
        ("kube-system/kube-dns", [], [COMMON, COMMON]),
        ("kube-system/rke2-dns", [], [COMMON, OWN]),
        ("kube-system/rke2-dns", [("kube-system", "rke2-dns")], [COMMON, COMMON]),
    ],
)
def test_the_address_of_the_dns_is_that_of_many_clusters(
    key: str, of_dns: list[tuple[str, str]], groups: list[str]
) -> None:
    objects = [service(key, "10.96.0.10"), service("default/kubernetes", "10.96.0.1")]
    answers = Cluster(*objects, existing=["kube-system", "default"]).plugin.answer_set()
    found = doctor_questions(answers, key, [], of_dns)
    assert [each.group for each in found if each.qtype == RRType.A] == groups
    assert len(doctor_questions(answers, "", [], of_dns)) == len(set(groups))
