"""A lookup as data, for `hsdns resolve -o json` and `hsdns explain -from ... -o json`.

Path: the steps of a model -> here -> resolver/text.py, explanation/report.py.
Rule: fields are only added; a time is in seconds since the start of the lookup.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from hsdns.resolver.model import Ended, Model, Packet, Received, Sent, Step
from hsdns.wire.iana import rcode_to_text, type_to_text


class AnswerReport(msgspec.Struct, frozen=True):
    """The first answer to a query; without an `rcode` its TCP connection was closed."""

    at: float
    rcode: str | None
    truncated: bool
    addresses: list[str]


class QueryReport(msgspec.Struct, frozen=True):
    """One query; `socket` and `id` are numbered, and `unseen` says why its answer is not known, if there may be one."""

    at: float
    transport: str
    nameserver: str
    socket: str
    id: int
    type: str
    name: str
    edns: int
    answer: AnswerReport | None
    unseen: str = ""


class LookupReport(msgspec.Struct, frozen=True):
    """A whole lookup; `error` is the program's error if it gets no addresses, in the words of its library."""

    resolver: str
    search: list[str]
    ndots: int
    remarks: list[str]
    queries: list[QueryReport]
    seconds: float
    addresses: list[str]
    error: str | None
    why: str

    @property
    def has_reply(self) -> bool:
        """Whether any query was answered."""
        return any(each.answer is not None and each.answer.rcode is not None for each in self.queries)  # fmt: skip


def report_of(
    model: Model, steps: Iterable[Step], unseen: Mapping[int, str] | None = None
) -> LookupReport:
    """The report of a lookup that has ended; `unseen` by id() of the packets."""
    packets: list[Packet] = []
    answers: dict[int, Received] = {}
    end: Ended | None = None
    for step in steps:
        if isinstance(step, Sent):
            packets.append(step.packet)
        elif isinstance(step, Received):
            answers.setdefault(id(step.packet), step)
        else:
            end = step
    assert end is not None, "the last step is Ended"
    conf, result = model.conf, end.result
    queries = [
        QueryReport(
            round(each.at, 3),
            each.transport,
            conf.nameservers[each.server],
            each.port,
            each.qid,
            type_to_text(each.rrtype),
            each.name,
            each.edns,
            _answer(answers.get(id(each))),
            (unseen or {}).get(id(each), ""),
        )
        for each in packets
    ]
    return LookupReport(
        model.name,
        list(conf.search),
        conf.ndots,
        list(conf.remarks),
        queries,
        round(end.at, 3),
        list(result.addresses),
        result.error or None,
        result.why,
    )


def _answer(received: Received | None) -> AnswerReport | None:
    if received is None:
        return None
    answer = received.answer
    rcode = None if answer.is_closed else rcode_to_text(answer.rcode)
    return AnswerReport(round(received.at, 3), rcode, answer.tc, list(answer.addresses))
