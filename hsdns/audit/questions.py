"""The questions of an audit: every RRset of a cluster's zones, and some names that must not exist.

Path: cluster/answer_set.py -> here -> run.py.
Rule 1: each RRset is queried once, by its owner and type.  SOA, NS and the address of the name server are omitted: they
        describe the server itself.
Rule 2: the RRset is the right answer at that moment, so it is not computed again when an answer is judged.
Rule 3: absent names are derived from existing ones, with a seed: a Service with another name, and an endpoint that a
        headless Service does not have.

The DNS servers behind a Service of the cluster: one for each ready endpoint:
Rule: the port is the slice's UDP port named dns, or else its first UDP port: the port of the pods, which need not be
      53.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from ipaddress import ip_address
from random import Random
from typing import Final, NamedTuple

from hsdns.cluster.address import is_reverse
from hsdns.cluster.answer_set import AnswerSet
from hsdns.cluster.schema import SVC
from hsdns.cluster.value import HEADLESS, Port, ServiceValue
from hsdns.load.questions import ABSENT, Question
from hsdns.load.verify.judge import Answer, answer_of
from hsdns.wire.iana import Rcode, RRType
from hsdns.wire.name import MAX_LABEL_LEN, Name


def replicas(value: ServiceValue) -> list[tuple[str, int]]:
    """Address and port of each ready endpoint, sorted; empty if there are none."""
    found = set()
    for part in value.slices:
        port = _port(part.ports)
        if port is not None and part.width:
            found |= {(ip_address(address), port) for address in part.separate}
    ordered = sorted(found, key=lambda each: (each[0].version, int(each[0]), each[1]))
    return [(str(address), port) for address, port in ordered]


def _port(ports: Sequence[Port]) -> int | None:
    over_udp = [each for each in ports if each.protocol == b"udp" and each.number > 0]
    named = [each for each in over_udp if each.name == b"dns"]
    return (named or over_udp)[0].number if over_udp else None


SUFFIX: Final = b"-absent"
ENDPOINT: Final = b"absent"
_ASKED: Final = (RRType.A, RRType.AAAA, RRType.SRV, RRType.PTR, RRType.CNAME)


class AuditQuestions(NamedTuple):
    """Questions, and the right answers to the first of them, which are about names that exist."""

    all: list[Question]
    known: list[Answer]


def audit_questions(
    answer_sets: Sequence[AnswerSet], absent: int, random: Random
) -> AuditQuestions:
    """Questions about all names of kubernetes blocks, and about `absent` names that do not exist."""
    found: dict[tuple[bytes, int], tuple[Question, Answer]] = {}
    for answer_set in answer_sets:
        for question, right in _present(answer_set):
            found.setdefault((question.name.lower, question.qtype), (question, right))
    beside: list[Question] = []
    for answer_set in answer_sets:
        beside += _absent(answer_set, absent, random)
    questions = [question for question, _ in found.values()]
    return AuditQuestions([*questions, *beside[:absent]], [right for _, right in found.values()])


def _present(answer_set: AnswerSet) -> Iterator[tuple[Question, Answer]]:
    for zone in answer_set.zones:
        server = Name.from_labels((b"ns", b"dns", *zone.labels))
        for rrset in answer_set.of_zone(zone):
            owner, qtype = rrset[0].owner, rrset[0].rrtype
            if qtype in _ASKED and owner != server:
                question = Question(owner, qtype, _group(owner, qtype, zone))
                yield question, answer_of(Rcode.NOERROR, rrset)


def _group(owner: Name, qtype: int, zone: Name) -> str:
    if qtype == RRType.PTR and is_reverse(owner):
        return "reverse"
    if qtype == RRType.SRV:
        return "srv"
    labels = owner.below(zone)
    if not labels or labels[-1] != SVC:
        return "pod"
    return "service" if len(labels) == 3 else "endpoint"


def _absent(answer_set: AnswerSet, number: int, random: Random) -> list[Question]:
    found: list[Question] = []
    for zone in answer_set.forward_zones:
        exposed = answer_set.exposed(zone)
        keys = sorted(exposed)
        for namespace, label in random.sample(keys, min(number, len(keys))):
            below = (namespace, SVC, *zone.labels)
            if exposed[namespace, label].kind == HEADLESS and random.random() < 0.5:
                labels = (ENDPOINT, label, *below)
                if any(
                    ENDPOINT in (part.labels or ()) for part in exposed[namespace, label].slices
                ):
                    continue
            else:
                other = label[: MAX_LABEL_LEN - len(SUFFIX)] + SUFFIX
                if (namespace, other) in exposed:
                    continue
                labels = (other, *below)
            found.append(Question(Name.from_labels(labels), RRType.A, ABSENT))
    return found
