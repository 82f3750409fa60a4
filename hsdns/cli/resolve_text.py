"""How `hsdns resolve` shows lookups: a list of queries, a table of resolvers, or JSON.

Path: cli/resolve.py -> here -> standard output.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

from hsdns.resolver.model import Answer, Ended, Model, Packet, Received, Sent, Step
from hsdns.wire.iana import Rcode, rcode_to_text, type_to_text

WIDTH: Final = 79  # columns
MOST_ADDRESSES: Final = 2  # that are shown in a line
LONG: Final = 0.2  # seconds without a packet that are shown as a wait


class Lookup(NamedTuple):
    """One lookup of one resolver."""

    model: Model
    steps: list[Step]

    @property
    def end(self) -> Ended:
        """Its last step."""
        last = self.steps[-1]
        assert isinstance(last, Ended)
        return last

    @property
    def has_reply(self) -> bool:
        """Whether any query was answered."""
        return any(isinstance(each, Received) and not each.answer.is_closed for each in self.steps)


def as_list(name: str, lookup: Lookup) -> Iterator[str]:
    """A line for each query with its answer, for each wait, and the result last."""
    conf = lookup.model.conf
    yield f"{lookup.model.name}: search {' '.join(conf.search) or 'none'}, ndots {conf.ndots}"
    yield from _remarks(lookup)
    answers = _answers(lookup)
    last = 0.0
    widest = max((len(each.name) for each in _packets(lookup)), default=0)
    for packet in _packets(lookup):
        if packet.at - last >= LONG:
            yield f"           waits {_seconds(packet.at - last)}"
        last = packet.at
        server = f" {conf.nameservers[packet.server]}" if len(conf.nameservers) > 1 else ""
        yield (
            f"{packet.at:8.3f}  {packet.transport}{server} {type_to_text(packet.rrtype):4} "
            f"{packet.name:{widest}}  {_answer_text(packet, answers.get(id(packet)))}"
        )
    at, result = lookup.end
    if at - last >= LONG:
        yield f"           waits {_seconds(at - last)}"
    yield from _wrapped(f"{at:8.3f}  {name}: {_result(lookup)}: {result.why}")


def as_table(name: str, lookups: Sequence[Lookup]) -> Iterator[str]:
    """A line for each resolver, then why each came to its result."""
    conf = lookups[0].model.conf
    yield f"{name}: search {' '.join(conf.search) or 'none'}, ndots {conf.ndots}"
    yield "resolver    queries  seconds  result"
    for lookup in lookups:
        packets = sum(isinstance(each, Sent) for each in lookup.steps)
        yield f"{lookup.model.name:10} {packets:8} {lookup.end.at:8.3f}  {_result(lookup)}"
    yield ""
    reasons: dict[str, list[str]] = {}
    for lookup in lookups:
        yield from _remarks(lookup)
        reasons.setdefault(lookup.end.result.why, []).append(lookup.model.name)
    for why, names in reasons.items():
        yield from _wrapped(f"{', '.join(names)}: {why}")
    good = [each.model.name for each in lookups if not each.end.result.error]
    bad = [each.model.name for each in lookups if each.end.result.error]
    yield from _wrapped(
        f"resolves with all: {', '.join(good)}"
        if not bad
        else f"resolves with none of {', '.join(bad)}"
        if not good
        else f"resolves with {', '.join(good)}, but not with {', '.join(bad)}"
    )


def as_json(
    name: str, types: Sequence[int], text: str, lookups: Sequence[Lookup]
) -> dict[str, Any]:
    """What -o json prints."""
    return {
        "name": name,
        "types": [type_to_text(each) for each in types],
        "resolv_conf": text,
        "resolvers": [_json(each) for each in lookups],
    }


def _json(lookup: Lookup) -> dict[str, Any]:
    answers = _answers(lookup)
    at, result = lookup.end
    queries = []
    for packet in _packets(lookup):
        received = answers.get(id(packet))
        queries.append(
            {
                "at": round(packet.at, 3),
                "transport": packet.transport,
                "nameserver": lookup.model.conf.nameservers[packet.server],
                "socket": packet.port,
                "id": packet.qid,
                "type": type_to_text(packet.rrtype),
                "name": packet.name,
                "edns": packet.edns,
                "answer": None
                if received is None
                else {
                    "at": round(received.at, 3),
                    "rcode": None
                    if received.answer.is_closed
                    else rcode_to_text(received.answer.rcode),
                    "truncated": received.answer.tc,
                    "addresses": received.answer.addresses,
                },
            }
        )
    return {
        "resolver": lookup.model.name,
        "remarks": lookup.model.conf.remarks,
        "queries": queries,
        "seconds": round(at, 3),
        "addresses": result.addresses,
        "error": result.error or None,
        "why": result.why,
    }


def _packets(lookup: Lookup) -> Iterator[Packet]:
    return (each.packet for each in lookup.steps if isinstance(each, Sent))


def _answers(lookup: Lookup) -> dict[int, Received]:
    """The first answer to each packet, by id() of the packet."""
    found: dict[int, Received] = {}
    for each in lookup.steps:
        if isinstance(each, Received):
            found.setdefault(id(each.packet), each)
    return found


def _answer_text(packet: Packet, received: Received | None) -> str:
    if received is None:
        return "no reply"
    answer = received.answer
    late = received.at - packet.at
    after = f" after {_seconds(late)}" if late >= 0.001 else ""
    return f"{_what(answer)}{after}"


def _what(answer: Answer) -> str:
    if answer.is_closed:
        return "connection closed"
    if answer.tc:
        return "truncated"
    if answer.rcode != Rcode.NOERROR:
        return rcode_to_text(answer.rcode)
    return _addresses(answer.addresses) or "no data"


def _addresses(addresses: Sequence[str]) -> str:
    shown = " ".join(addresses[:MOST_ADDRESSES])
    left = len(addresses) - MOST_ADDRESSES
    return f"{shown} and {left} more" if left > 0 else shown


def _result(lookup: Lookup) -> str:
    result = lookup.end.result
    return f'error "{result.error}"' if result.error else _addresses(result.addresses)


def _remarks(lookup: Lookup) -> Iterator[str]:
    for remark in lookup.model.conf.remarks:
        yield from _wrapped(remark)


def _wrapped(text: str) -> list[str]:
    return textwrap.wrap(
        text, WIDTH, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False, drop_whitespace=True
    )  # fmt: skip


def _seconds(seconds: float) -> str:
    return f"{seconds:.3f}".rstrip("0").rstrip(".") + " s"
