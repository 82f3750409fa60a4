"""The message path, without sockets and without an event loop: every answer here is made in one step."""

from __future__ import annotations

import logging
import re
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest

from hsdns.chain import BlockChoice, Candidate, Endpoint, Next, Request
from hsdns.query import MAX_DEPTH, QueryProcessor, Show
from hsdns.wire.encode import MANY_RECORDS
from hsdns.wire.iana import Rcode, RRType
from hsdns.wire.message import RR, Reply, unwritten
from hsdns.wire.name import Name
from tests.support.clients.messages import query, summary
from tests.support.coroutines.eager import finish, turns
from tests.support.plugins.requests import make_request, reply, rr

CLIENT = Endpoint("192.0.2.1", 40000)
LOCAL = Endpoint("192.0.2.53", 53)


class Recorder:
    """A chain that answers with one reply, or raises one error, and keeps its requests."""

    def __init__(self, answer: Reply | Exception) -> None:
        self.answer = answer
        self.requests: list[Request] = []

    async def __call__(self, request: Request) -> Reply:
        self.requests.append(request)
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


class ObservedProcessor:
    """A processor over zones, and what it reported of refusals and panics."""

    def __init__(
        self,
        zones: dict[str, Next | None],
        *,
        any_class: bool = False,
        blocks: BlockChoice[Next] | None = None,
        stacktrace: bool = False,
        tap: Callable[[], Show | None] = lambda: None,
        late_watch: Callable[[float], Awaitable[None] | None] | None = None,
    ) -> None:
        self.refused: list[tuple[Request, Reply]] = []
        self.panics = 0
        self.processor = QueryProcessor(
            "dns://:53",
            blocks
            or BlockChoice.by_zone({Name.from_text(zone): chain for zone, chain in zones.items()}),
            any_class=any_class,
            on_refused=lambda request, answer: self.refused.append((request, answer)),
            on_panic=self._panicked,
            stacktrace=stacktrace,
            tap=tap,
            late_watch=late_watch,
        )

    def _panicked(self) -> None:
        self.panics += 1

    def answer(self, wire: bytes, protocol: str = "udp") -> bytes | None:
        return finish(self.processor.answer(wire, CLIENT, LOCAL, protocol, 5.0))

    def summary(self, wire: bytes, protocol: str = "udp") -> str:
        found = self.answer(wire, protocol)
        assert found is not None, "silence"
        return summary(found)


FOUND = reply(["www.example.org. 60 IN A 192.0.2.80"], aa=True)

# --- step 4: which block answers ---


# --- steps 3 and 6 ---


# --- what goes wrong ---


@pytest.mark.parametrize(
    "chain",
    [
        pytest.param(Recorder(RuntimeError("broken")), id="raises"),
        pytest.param(Recorder(RecursionError("too deep")), id="recursion"),
        pytest.param(
            Recorder(Reply(answer=(rr("example.org. 60 IN A 192.0.2.1")._replace(ttl=-1),), aa=True)),
            id="record-that-cannot-be-written",
        ),
    ],
)  # fmt: skip
def test_error_in_a_handler_is_servfail(chain: Recorder, caplog: pytest.LogCaptureFixture) -> None:
    observed = ObservedProcessor({".": chain})
    with caplog.at_level(logging.ERROR, "hsdns"):
        assert observed.summary(query("example.org").to_wire()) == "1 SERVFAIL qr rd |  |  | "
    assert observed.panics == 1
    assert [answer for _, answer in observed.refused] == [unwritten(2)]
    (record,) = caplog.records
    start, _, rest = record.getMessage().partition(".: ")
    assert start == "recovered from an error in a handler, queried for example.org"
    assert re.fullmatch(r"\w+: [a-z ]+ \(\w+\.py:\d+ in \w+\)", rest)
    assert not record.exc_info
    chain.answer = FOUND
    assert observed.summary(query("www.example.org").to_wire()).startswith("1 NOERROR")


class LabelFilter:
    """A filter that names a view for the names that begin with a label, and raises for another."""

    def __init__(self, label: bytes) -> None:
        self.label = label

    def filter_request(self, request: Request) -> Request | None:
        """Take a name."""
        label = request.query.qname.labels[0]
        if label == b"broken":
            raise RuntimeError("no filter")
        return request.replace(view="www") if label == self.label else None


def test_filters_choose_the_block(caplog: pytest.LogCaptureFixture) -> None:
    chain = Recorder(FOUND)
    zone = Name.from_text("example.org.")
    blocks: BlockChoice[Next] = BlockChoice(
        {zone: [Candidate(zone, chain, (LabelFilter(b"www"),))]}
    )
    observed = ObservedProcessor({}, blocks=blocks)
    assert observed.summary(query("www.example.org").to_wire()).startswith("1 NOERROR")
    assert [(request.view, request.zone.to_text()) for request in chain.requests] == [
        ("www", "example.org.")
    ]
    assert observed.summary(query("ftp.example.org").to_wire()).startswith("1 REFUSED")
    assert len(chain.requests) == 1
    with caplog.at_level(logging.ERROR, "hsdns"):
        assert observed.summary(query("broken.example.org").to_wire()).startswith("1 SERVFAIL")
    assert "RuntimeError: no filter" in caplog.text


@pytest.mark.parametrize(
    ("depth", "rcode", "error"),
    [
        pytest.param(MAX_DEPTH, 0, None, id="deepest"),
        pytest.param(MAX_DEPTH + 1, 2, "a.example.org. leads through more than 8 lookups", id="too-deep"),
    ],
)  # fmt: skip
def test_depth(depth: int, rcode: int, error: str | None) -> None:
    chain = Recorder(FOUND)
    found = finish(
        ObservedProcessor({".": chain}).processor.resolve(
            make_request("a.example.org", depth=depth)
        )
    )
    assert (found.rcode, found.error) == (rcode, error)
    assert len(chain.requests) == (error is None)


# --- the answer table ---


# --- replies that are signed or have several messages ---


class Stamp:
    """A message.Signer that counts and puts two octets at the end of each message."""

    room = 2

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, message: bytes) -> bytes:
        self.count += 1
        return message + b"#" + str(self.count).encode()


def records(*numbers: int) -> tuple[RR, ...]:
    return tuple(rr(f"www.example.org. 2 IN A 192.0.2.{number}") for number in numbers)


def asked_with_more(answer: Reply) -> tuple[bytes | None, list[bytes]]:
    observed, more = ObservedProcessor({".": Recorder(answer)}), list[Iterator[bytes]]()
    wire = query("www.example.org").to_wire()
    found = finish(observed.processor.answer(wire, CLIENT, LOCAL, "tcp", 5.0, more.append))
    return found, [message for messages in more for message in messages]


@pytest.mark.parametrize("signs", [False, True])
def test_messages_that_follow(signs: bool) -> None:
    following = iter([(*records(2), *records(3)), records(4)])
    sign = Stamp() if signs else None
    first, rest = asked_with_more(Reply(answer=records(1), aa=True, following=following, sign=sign))
    assert first is not None
    if signs:
        assert [message[-2:] for message in (first, *rest)] == [b"#1", b"#2", b"#3"]
        first, *rest = (message[:-2] for message in (first, *rest))
    assert [summary(message) for message in (first, *rest)] == [
        "1 NOERROR qr aa rd | www.example.org. 2 IN A 192.0.2.1 |  | ",
        "1 NOERROR qr aa rd | www.example.org. 2 IN A 192.0.2.2 www.example.org. 2 IN A 192.0.2.3 |  | ",
        "1 NOERROR qr aa rd | www.example.org. 2 IN A 192.0.2.4 |  | ",
    ]


def test_what_cannot_be_written_is_a_signed_servfail(caplog: pytest.LogCaptureFixture) -> None:
    broken = RR(Name.from_text("a."), 1, -1, b"")
    found, rest = asked_with_more(
        Reply(answer=(broken,), sign=Stamp(), following=iter([records(1)]))
    )
    assert found is not None
    assert (found[3] & 15, found[-2:], rest) == (Rcode.SERVFAIL, b"#1", [])


@pytest.mark.parametrize(
    ("records", "protocol", "expected"),
    [
        pytest.param(MANY_RECORDS, "tcp", 1, id="big"),
        pytest.param(MANY_RECORDS - 1, "tcp", 0, id="ordinary"),
        pytest.param(MANY_RECORDS, "udp", 0, id="few fit"),
    ],
)
def test_a_big_reply_is_encoded_in_another_turn(records: int, protocol: str, expected: int) -> None:
    address = FOUND.answer[0]
    chain = Recorder(FOUND.replace(answer=(address,) * records))
    processor = ObservedProcessor({".": chain}).processor
    wire = query("www.example.org").to_wire()
    out, count = turns(processor.answer(wire, CLIENT, LOCAL, protocol, 5.0))
    assert count == expected
    assert out is not None
    assert (out[2] & 2 == 0) == (protocol == "tcp")


@pytest.mark.parametrize(("payload", "several"), [(65535, True), (4096, False)])
def test_a_big_reply_with_names_is_encoded_in_several_turns(payload: int, several: bool) -> None:
    owner = Name.from_text("www.example.org.")
    names = tuple(RR(owner, RRType.NS, 5, b"\4%04d" % n + owner.wire) for n in range(3000))
    processor = ObservedProcessor({".": Recorder(FOUND.replace(answer=names))}).processor
    for protocol in ("udp", "tcp"):
        wire = query("www.example.org", payload=payload).to_wire()
        _, count = turns(processor.answer(wire, CLIENT, LOCAL, protocol, 5.0))
        assert (count > 10) == (several or protocol == "tcp")


# --- the tap ---


class RecordedTap:
    """What the processor has shown."""

    def __init__(self) -> None:
        self.is_open = True
        self.shown: list[tuple[Any, ...]] = []

    def taker(self) -> Show | None:
        return (lambda *of: self.shown.append(of)) if self.is_open else None


@pytest.mark.parametrize(
    "wire",
    [query("example.org").to_wire(), query("nowhere.test").to_wire(), query("example.org").to_wire()[:14]],
    ids=["answered", "refused", "malformed"],
)  # fmt: skip
def test_an_open_tap_is_shown_each_answer(wire: bytes) -> None:
    tap = RecordedTap()
    answer = Recorder(Reply(answer=(rr("example.org. 5 IN A 192.0.2.1"),)))
    observed = ObservedProcessor({"example.org.": answer}, tap=tap.taker)
    out = observed.answer(wire, "tcp")
    assert tap.shown == [("dns://:53", wire, CLIENT, "tcp", 5.0, out)]
    tap.is_open = False
    assert observed.answer(wire, "tcp") == out
    assert len(tap.shown) == 1


def test_reply_of_several_messages_is_truncated_for_a_client_that_takes_one() -> None:
    observed = ObservedProcessor(
        {".": Recorder(Reply(answer=records(1), following=iter([records(2)])))}
    )
    found = observed.summary(query("www.example.org").to_wire())
    assert found == "1 NOERROR qr tc rd | www.example.org. 2 IN A 192.0.2.1 |  | "
