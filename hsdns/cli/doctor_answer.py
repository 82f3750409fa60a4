"""The answers of a DNS server, each with the right answer, as an object of a dump.

Path: cli/doctor_servers.py (replies, and the output of `hsdns ask` in a Pod) -> here -> rules/checks/dns.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from hsdns.audit.report import record_texts
from hsdns.cli.doctor_questions import OWN
from hsdns.load.questions import Question
from hsdns.load.verify.judge import Answer
from hsdns.load.verify.verifier import answer_of
from hsdns.sources.cluster_dump import DNS_SERVER
from hsdns.wire.iana import Rcode, RRClass, rcode_from_text, rcode_to_text, type_to_text
from hsdns.wire.message import RR

VIEW: Final = "view"  # the role of servers that were queried from a Pod


def server_object(
    role: str,
    about: str,
    host: str,
    port: int,
    answers: Sequence[Mapping[str, Any]],
    silence: str,
    *,
    refused: bool,
    is_known: bool,
) -> dict[str, Any]:
    """A server with its answers; `silence` is why it got no further queries.

    `is_known`: whether the answers are known to be those of this cluster's DNS.
    """
    return {
        "apiVersion": "hsdns.io/v1",
        "kind": DNS_SERVER,
        "metadata": {"name": host},
        "role": role,
        "about": about,
        "address": f"{host} port {port}",
        "answers": list(answers),
        "silence": silence,
        "refused": refused,
        "known": is_known,
    }


def is_proof(question: Question, answer: Mapping[str, Any]) -> bool:
    """Whether an answer shows that it is of this cluster: its addresses are right, and only this cluster's."""
    return question.group == OWN and answer["right"] is True and answer["records"] > 0


def is_right(said: Answer, expected: Sequence[Answer | None]) -> bool:
    """Whether an answer is one of those that were right at some time; without any, whether it is not a failure."""
    if any(each is None for each in expected):  # the objects do not determine it
        return said.rcode in (Rcode.NOERROR, Rcode.NXDOMAIN)
    return said in expected


def answer_object(
    question: Question, said: Answer, right: Answer | None, *, is_right: bool
) -> dict[str, Any]:
    """An answer, with its missing and its extra records."""
    found: dict[str, Any] = {
        "name": question.name.to_text(),
        "type": type_to_text(question.qtype),
        "rcode": rcode_to_text(said.rcode),
        "right": is_right,
        "records": len(said.records),
    }
    if not is_right and right is not None:
        found["expected"] = rcode_to_text(right.rcode)
        found["lacks"] = record_texts(right.records - said.records)
        found["has"] = record_texts(said.records - right.records)
    return found


def word_of(question: Question) -> str:
    """A question as an argument of `hsdns ask`."""
    return f"{question.name.to_text()}/{type_to_text(question.qtype)}"


def seen_from(
    about: str,
    printed: Sequence[Mapping[str, Any]],
    questions: Sequence[Question],
    before: Sequence[Answer | None],
    after: Sequence[Answer | None],
) -> list[dict[str, Any]]:
    """The output of `hsdns ask` as objects; raise ValueError, KeyError or TypeError for other output.

    `before` and `after` are the right answers before and after it ran.
    """
    numbers = {word_of(each): number for number, each in enumerate(questions)}
    found = []
    for server in printed:
        answers = []
        for each in server["answers"]:
            number = numbers[each["question"]]
            question = questions[number]
            records = [
                RR(question.name, int(rrtype), 0, bytes.fromhex(rdata), RRClass.IN)
                for rrtype, rdata in each["records"]
            ]
            said = answer_of(rcode_from_text(each["rcode"]), records)
            right = is_right(said, (before[number], after[number]))
            answers.append(answer_object(question, said, after[number], is_right=right))
        host, port, silence = server["host"], int(server["port"]), str(server["silence"])
        refused = server["refused"] is True
        found.append(
            server_object(VIEW, about, host, port, answers, silence, refused=refused, is_known=True)
        )
    return found
