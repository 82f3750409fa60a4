"""Every kind of corruption of loadtest/verdicts is found, with its field, and no harmless difference is."""

from __future__ import annotations

import pytest

from hsdns.cluster.lookup import NoSuchName
from hsdns.load.outcome import WHY_UNMATCHED
from hsdns.load.questions import Question
from hsdns.load.send.loop import Query as Sent
from hsdns.load.verify.judge import RIGHT, WRONG
from hsdns.load.verify.message import CLASS, MESSAGE, OWNER, is_usable
from hsdns.load.verify.truth import Truth
from hsdns.load.verify.verifier import Verifier
from hsdns.plugins.kubernetes import Kubernetes
from hsdns.wire.decode import decode_reply
from hsdns.wire.encode import encode
from hsdns.wire.iana import RRType, type_from_text
from hsdns.wire.message import Query, Reply, nxdomain
from hsdns.wire.name import Name
from loadtest.verdicts.corruption import Kind, alter, fits, read_kinds
from tests.load.clusters import with_block

KINDS = [*read_kinds("corruptions.txt"), *read_kinds("harmless.txt")]
# Of the cluster of tests; EDNS is used in every second query.
ASKED = ("svc-1.ns-0 A", "svc-1.ns-0 SRV", "svc-0.ns-0 A", "svc-0.ns-0 AAAA", "svc-9.ns-0 A")


def answers(block: Kubernetes, query: Query) -> bytes:
    """The right reply to a query."""
    zone = query.qname.longest_of(block.zones)
    assert zone is not None
    try:
        reply = block.answers.answer_at_once(query.qname, query.qtype, zone)
    except NoSuchName:
        reply = nxdomain(block.answers.soa(zone))
    assert isinstance(reply, Reply)
    return encode(query, reply, 65_535)


async def every_verdict(block: Kubernetes) -> dict[str, set[str]]:
    """The verdicts on each kind, by name."""
    questions = [
        Question(Name.from_text(f"{name}.svc.cluster.local."), type_from_text(rrtype), "x")
        for name, rrtype in map(str.split, ASKED)
    ]
    (address,) = block.store.services.values[b"ns-0", b"svc-0"].cluster_ips[:1]
    name = Name.from_labels(
        [*(str(each).encode() for each in reversed(address)), b"in-addr", b"arpa"]
    )
    questions.append(Question(name, RRType.PTR, "x"))
    truth = Truth(block, questions, lambda: 0.0)
    found: dict[str, set[str]] = {kind.name: set() for kind in KINDS}
    for edns in (0, 1232):
        verifier = Verifier(truth, questions, edns=edns)
        for number, question in enumerate(questions):
            query = question.query(edns)
            wire = answers(block, query)
            for kind in KINDS:
                if fits(kind, wire, query):
                    found[kind.name].add(
                        verdict(
                            verifier, number, question.octets(edns), wire, alter(kind, wire, query)
                        )
                    )
    return found


def verdict(verifier: Verifier, number: int, asked: bytes, wire: bytes, altered: bytes) -> str:
    if altered[:2] != wire[:2]:
        return "unanswered unknown ID"
    why = Sent(asked, number, 0, 0).misfit(altered)
    if why is not None:
        return f"unanswered {WHY_UNMATCHED[why]}"
    verifier.remember(1, number, altered[2:])
    flags = int.from_bytes(altered[2:4], "big")
    judged = verifier.judge(number, flags, 1, 1.0, 1.0, 1.0) or next(verifier.settled(9.0))
    if judged.verdict.word in (RIGHT, WRONG) and judged.verdict.reason != MESSAGE:
        query = verifier._questions[number].query()
        is_taken = is_usable(decode_reply(altered, query), query)  # by wait and doctor
        assert is_taken is (judged.verdict.reason not in (OWNER, CLASS))
    return f"{judged.verdict.word} {judged.verdict.reason}".rstrip()


@pytest.fixture(scope="module")
def verdicts() -> dict[str, set[str]]:
    found = with_block(every_verdict)
    assert isinstance(found, dict)
    return found


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_kind(kind: Kind, verdicts: dict[str, set[str]]) -> None:
    assert verdicts[kind.name] == {kind.verdict}
