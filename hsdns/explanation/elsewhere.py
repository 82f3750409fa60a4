"""Compares another server's answer with the answer from the objects.

Path: cli/explain_server.py queries the server -> here -> report.ServerReport.
Rule 1: records are compared without TTLs and SRV weights, and in any order.
Rule 2: no difference is reported if the explanation does not know the answer.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from hsdns.explanation.report import Explanation, RecordReport, ServerReport

DENIALS: Final = ("NXDOMAIN", "NOERROR")


class Record(NamedTuple):
    """A record of a reply, as text; `ttl` in seconds."""

    owner: str
    ttl: int
    type: str
    rdata: str


class ServerAnswer(NamedTuple):
    """A reply; `zone` and `negative_ttl` are from the SOA record of a denial.  `error`: why there is no reply."""

    rcode: str = ""
    records: tuple[Record, ...] = ()
    zone: str = ""
    negative_ttl: int = 0
    error: str = ""


def compare(found: Explanation, address: str, answer: ServerAnswer) -> ServerReport:
    """The answer of the server at an address, and its differences from an explanation."""
    shown = [f"{each.owner} {each.ttl} {each.type} {each.rdata}" for each in answer.records]
    if answer.error:
        return ServerReport(address, "", shown, [answer.error])
    differences = [] if found.outcome == "could not tell" else list(_differences(found, answer))
    return ServerReport(address, answer.rcode, shown, differences)


def _differences(found: Explanation, answer: ServerAnswer) -> Iterable[str]:
    if answer.rcode not in DENIALS:
        if answer.rcode != found.rcode:
            yield {
                "REFUSED": "it answers REFUSED: it serves no zone of the name, or not for this client",
                "SERVFAIL": "it answers SERVFAIL: it could not find out, or has not read the cluster yet",
            }.get(answer.rcode, f"it answers {answer.rcode}")
        return
    own, theirs = _by_content(found.records), _by_content(answer.records)
    if own and not theirs:
        yield f"it answers {_denied(answer)}, but the name has {_counted(len(own))}{_from(found, answer)}"
        return
    if not own and not theirs and answer.rcode != found.rcode:
        yield f"it answers {_denied(answer)}, not {found.rcode}{_from(found, answer)}"
    for content, record in theirs.items():
        if content not in own:
            yield f"it still answers {record.rdata}, for {record.ttl} s more, which no object has now"
    for content, missing in own.items():
        if content not in theirs:
            yield f"it does not answer {missing.rdata}"


def _denied(answer: ServerAnswer) -> str:
    kind = answer.rcode if answer.rcode == "NXDOMAIN" else "no records"
    return f"{kind} for {answer.negative_ttl} s more" if answer.zone else kind


def _from(found: Explanation, answer: ServerAnswer) -> str:
    """The zone of a denial, if it is another one."""
    zone = found.reading.get("zone", "")
    if answer.zone and zone and answer.zone.lower() != zone.lower():
        return f"; its SOA record is of {answer.zone}, so it asked in another zone than {zone}"
    return "; it may have stored that before the name existed" if answer.zone else ""


def _by_content(
    records: Sequence[RecordReport | Record],
) -> dict[tuple[str, str], RecordReport | Record]:
    return {_content(each): each for each in records}


def _content(record: RecordReport | Record) -> tuple[str, str]:
    words = record.rdata.lower().split()
    return record.type, " ".join(words[2:] if record.type == "SRV" else words)


def _counted(count: int) -> str:
    return "1 record" if count == 1 else f"{count} records"
