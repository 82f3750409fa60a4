"""The reflector response by response: requests, events, state."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import pytest

from hsdns.apiserver import reflector, watch_event
from hsdns.apiserver.reflector import (
    FIRST_PAUSE,
    HEALTHY,
    MAX_ERRORS,
    MAX_PAUSE,
    STATE_READ_TIMEOUT,
    WATCH_READ_TIMEOUT,
    Backoff,
    Key,
    Observer,
    Purpose,
    Reflector,
    Request,
)
from hsdns.apiserver.resource import JSON, PROTOBUF, SERVICES, Scope
from hsdns.apiserver.watch_event import MAX_LINE_LEN, LineSplitter
from hsdns.cluster.objects import Deleted, Event, Upserted
from tests.support.tables import values

TABLES = Path(__file__).with_name("tables.txt")

NAMES = ("type", "watch", "allowWatchBookmarks", "timeoutSeconds")


def line(kind: str, name: str = "", version: int = 0, **more: Any) -> bytes:
    """One line of a watch about a Service in namespace n."""
    meta: dict[str, Any] = {"resourceVersion": str(version)}
    if name:
        meta |= {"name": name, "namespace": "n"}
    return json.dumps({"type": kind, "object": {"metadata": meta, **more}}).encode() + b"\n"


def end_of_state(version: int) -> bytes:
    annotations = {"k8s.io/initial-events-end": "true"}
    meta = {"resourceVersion": str(version), "annotations": annotations}
    return json.dumps({"type": "BOOKMARK", "object": {"metadata": meta}}).encode() + b"\n"


def error(code: int, message: str = "because", **more: Any) -> bytes:
    status = {"kind": "Status", "code": code, "message": message, **more}
    return json.dumps({"type": "ERROR", "object": status}).encode() + b"\n"


def page(*names: str, version: int = 0, following: str = "") -> bytes:
    items = [{"metadata": {"name": name, "namespace": "n"}} for name in names]
    meta = {"resourceVersion": str(version), "continue": following}
    return json.dumps({"metadata": meta, "items": items}).encode()


class Harness(Observer):
    """A reflector that records its events and observations."""

    def __init__(self) -> None:
        self.delivered: list[str] = []
        self.told: list[str] = []
        self.kinds: list[str] = []
        self.now = 1000.0
        self.reflector = Reflector(Scope(SERVICES), self.deliver, self, Random(1))

    def deliver(self, events: Sequence[Event]) -> None:
        for event in events:
            assert isinstance(event, Upserted | Deleted)
            self.delivered.append(
                ("+" if isinstance(event, Upserted) else "-") + event.object.metadata.name
            )

    def rejected(self, key: Key, reason: str) -> None:
        self.told.append(f"rejected {'/'.join(key)}: {reason}")

    def received(self, kind: str) -> None:
        self.kinds.append(kind)

    def relisted(self, reason: str, missed: int) -> None:
        self.told.append(f"relisted: {reason}, {missed} missed")

    def ask(self, purpose: Purpose, **query: str) -> Request:
        """Return the next request, which must have this purpose and query."""
        ask = self.reflector.next_request()
        rest = {name: text for name, text in ask.query.items() if name not in NAMES}
        assert (ask.purpose, rest) == (purpose, query)
        return ask

    def answer(self, *chunks: bytes, error: str = "", seconds: float = 60.0) -> list[str]:
        """Respond with 200 and these chunks; return what was delivered."""
        self.delivered.clear()
        self.reflector.open(self.now)
        for chunk in chunks:
            if not self.reflector.receive_data(chunk):
                break
        self.now += seconds
        self.reflector.close(self.now, error)
        return self.delivered

    def stream(self, *chunks: bytes, **more: Any) -> list[str]:
        self.ask(Purpose.STREAM, sendInitialEvents="true", resourceVersionMatch="NotOlderThan")
        return self.answer(*chunks, **more)

    def watch(self, version: str, *chunks: bytes, **more: Any) -> list[str]:
        self.ask(Purpose.WATCH, resourceVersion=version)
        return self.answer(*chunks, **more)

    def synced(self, *names: str, version: int = 10) -> Harness:
        """Sync it with these Services."""
        self.stream(*(line("ADDED", name, 1) for name in names), end_of_state(version))
        assert self.reflector.synced
        self.told.clear()
        return self


@pytest.mark.parametrize("how", ["event", "refused"])
def test_an_unsupported_stream_is_followed_by_a_list(how: str) -> None:
    # An API server over an etcd before 3.4.25 says 200, and then this.
    harness = Harness()
    if how == "event":
        harness.stream(error(500, "the required storage feature RequestWatchProgress is disabled"))
    else:
        harness.ask(Purpose.STREAM, sendInitialEvents="true", resourceVersionMatch="NotOlderThan")
        harness.reflector.refuse(500, "")
    assert harness.reflector.pause(harness.now) == 0.0
    harness.ask(Purpose.LIST, limit="500")
    assert harness.answer(page("a", version=7)) == ["+a"]
    harness.ask(Purpose.WATCH, resourceVersion="7")


def test_a_page_with_too_many_octets_is_requested_in_smaller_ones(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    body = page("a", version=7)
    monkeypatch.setattr(reflector, "MAX_PAGE_LEN", len(body))
    harness = Harness()
    harness.stream(error="cut")
    for limit in ("500", "62", "7", "1"):
        harness.ask(Purpose.LIST, limit=limit)
        assert harness.answer(body, b" ") == []
        assert harness.reflector._body == b""
    assert harness.reflector.failure == (
        f"a page of services is longer than {len(body)} octets; asking for 1 objects at a time"
    )
    harness.ask(Purpose.LIST, limit="1")
    assert harness.answer(body) == ["+a"]


def test_an_object_that_has_grown_above_the_limit_of_octets_is_not_deleted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    harness = Harness().synced("a", "b")
    harness.watch("10", error(410))
    monkeypatch.setattr(watch_event, "LineSplitter", partial(LineSplitter, limit=200))
    grown = line("ADDED", "b", 11, spec={"externalName": "x" * 200})
    assert harness.stream(line("ADDED", "a", 1), grown, end_of_state(12)) == ["+a"]
    told = [f"rejected /: it is longer than {MAX_LINE_LEN} octets", "relisted: expired, 0 missed"]
    assert (harness.told, harness.reflector.known) == (told, {("n", "a"), ("n", "b")})
    # It is found by the next state that has it, or not.
    harness.watch("12", error(410))
    assert harness.stream(line("ADDED", "a", 1), end_of_state(13)) == ["+a", "-b"]


def test_an_unpaged_list_with_too_many_octets_is_requested_in_pages(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(reflector, "MAX_PAGE_LEN", 300)
    harness = Harness()
    harness.stream(error="cut")
    harness.ask(Purpose.LIST, limit="500")
    harness.answer(page("a", version=7, following="t1"))
    harness.ask(Purpose.LIST, **{"limit": "500", "continue": "t1"})
    harness.reflector.refuse(410, '{"kind":"Status","code":410,"message":"token expired"}')
    assert harness.reflector.failure == "the server responds 410: token expired"
    harness.ask(Purpose.LIST)
    assert harness.answer(bytes(301)) == []
    harness.ask(Purpose.LIST, limit="500")


@pytest.mark.parametrize(
    "chunk",
    [
        pytest.param(b"<html>no</html>\n", id="a line that is no event"),
        pytest.param(
            error(500) + line("MODIFIED", "a", 11), id="an ERROR event, which is the last"
        ),
        pytest.param(b"", id="a very short watch"),
    ],
)
def test_wrong_answers_time_and_again_mean_the_state_anew(chunk: bytes) -> None:
    harness = Harness().synced("a")
    for _ in range(MAX_ERRORS):
        assert harness.watch("10", chunk, seconds=0.1) == []
        assert harness.reflector.failure
        assert harness.reflector.pause(harness.now) >= 0.8
    harness.stream(end_of_state(30))
    assert harness.told == ["relisted: errors, 1 missed"]


def test_wrong_answers_are_counted_from_each_list_on() -> None:
    harness = Harness()
    harness.ask(Purpose.STREAM, sendInitialEvents="true", resourceVersionMatch="NotOlderThan")
    harness.reflector.refuse(400, "")
    for _ in range(3):
        harness.ask(Purpose.LIST, limit="500")
        harness.answer(page("a", version=10))
        for _ in range(MAX_ERRORS):
            harness.watch("10", b"<html>no</html>\n")


@pytest.mark.parametrize(
    ("chunk", "seconds", "is_short"),
    [(b"", 0.99, True), (b"", 1.0, False), (line("MODIFIED", "a", 11), 0.1, False)],
)
def test_how_short_a_watch_may_be(chunk: bytes, seconds: float, is_short: bool) -> None:
    harness = Harness().synced("a")
    harness.watch("10", chunk, seconds=seconds)
    assert bool(harness.reflector.failure) is is_short


def test_a_watch_goes_on_at_its_last_version() -> None:
    harness = Harness().synced("a")
    harness.kinds.clear()
    harness.watch("10", line("MODIFIED", "a", 11), line("BOOKMARK", version=15))
    assert harness.kinds == ["MODIFIED", "BOOKMARK"]
    without = line("MODIFIED", "a").replace(b'"resourceVersion": "0", ', b"")
    assert harness.watch("15", without) == ["+a"]
    harness.ask(Purpose.WATCH, resourceVersion="15")


def test_what_a_state_has_shown_that_broke_off_counts_no_more() -> None:
    harness = Harness().synced("a", "b")
    harness.watch("10", error(410))
    harness.stream(line("ADDED", "a", 11), error="cut")
    harness.ask(Purpose.LIST, limit="500")
    assert harness.answer(page("b", version=12)) == ["+b", "-a"]


def test_an_unreachable_server_causes_no_list() -> None:
    harness = Harness().synced("a")
    for _ in range(20):
        harness.ask(Purpose.WATCH, resourceVersion="10")
        harness.reflector.fail("connection refused")
        assert not harness.reflector.forbidden
    harness.ask(Purpose.WATCH, resourceVersion="10")
    harness.reflector.refuse(503, "")
    harness.ask(Purpose.WATCH, resourceVersion="10")


def test_a_malformed_object_keeps_the_previous_one() -> None:
    harness = Harness().synced("a", "b")
    bad = line("MODIFIED", "a", 11, spec=[])
    assert harness.watch("10", bad + line("MODIFIED", "b", 12)) == ["+b"]
    assert harness.told == ["rejected n/a: Expected `object`, got `array` - at `$.object.spec`"]
    harness.told.clear()
    # In a whole state it counts as there; one that was never readable does not.
    harness.watch("12", error(410))
    state = line("ADDED", "a", 11, spec=[]) + line("ADDED", "c", 9, spec=[]) + end_of_state(20)
    assert harness.stream(state) == ["-b"]
    assert harness.reflector.known == {("n", "a")}


@pytest.mark.parametrize(("status", "message", "failure"), values(TABLES, "refusals are sentences"))
def test_refusals_are_sentences(status: int, message: str, failure: str) -> None:
    harness = Harness()
    harness.reflector.next_request()
    harness.reflector.refuse(status, json.dumps({"kind": "Status", "message": message}))
    assert (harness.reflector.failure, harness.reflector.forbidden) == (failure, status == 403)


def test_a_server_without_protobuf_is_asked_for_json(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reflector, "IS_READ", True)
    harness = Harness()
    assert harness.reflector.next_request().accept == f"{PROTOBUF}, {JSON}"
    harness.reflector.refuse(406, '{"kind":"Status","reason":"NotAcceptable"}')
    assert (harness.reflector.failure, harness.reflector.pause(0.0)) == ("", 0.0)
    assert harness.reflector.next_request().accept == JSON
    # Then it is a failure as any other one.
    harness.reflector.refuse(406, '{"kind":"Status","reason":"NotAcceptable"}')
    assert harness.reflector.failure.startswith("the server responds 406")
    assert harness.reflector.next_request().accept == JSON


def test_the_server_says_how_long_to_wait() -> None:
    harness = Harness()
    harness.reflector.next_request()
    harness.reflector.refuse(429, "<p>slow down</p>", retry_after=17.0)
    assert harness.reflector.pause(0.0) == 17.0
    # And it holds for this once.
    harness.reflector.next_request()
    harness.reflector.fail("connection refused")
    assert harness.reflector.pause(0.0) < 4.0


def test_retry_after_in_an_error_event() -> None:
    harness = Harness().synced("a")
    harness.watch("10", error(429, details={"retryAfterSeconds": 9}))
    assert harness.reflector.pause(harness.now) == 9.0


def test_the_read_timeout_is_shorter_during_the_initial_state() -> None:
    harness = Harness()
    assert harness.reflector.next_request().read_timeout == STATE_READ_TIMEOUT
    harness.reflector.open(0.0)
    assert harness.reflector.read_timeout == STATE_READ_TIMEOUT
    harness.reflector.receive_data(end_of_state(5))
    assert harness.reflector.read_timeout == WATCH_READ_TIMEOUT
    harness.reflector.close(100.0)
    assert harness.reflector.next_request().read_timeout == WATCH_READ_TIMEOUT


class Fixed(Random):
    """A Random that always returns the same value."""

    def __init__(self, value: float) -> None:
        super().__init__(0)
        self.value = value

    def random(self) -> float:
        return self.value


@pytest.mark.parametrize(("chance", "pauses"), values(TABLES, "pauses double up to the maximum"))
def test_pauses_double_up_to_the_maximum(chance: float, pauses: list[float]) -> None:
    backoff, now = Backoff(Fixed(chance)), 100.0
    for pause in pauses:
        assert backoff.pause(now) == pytest.approx(pause)
        now += pause


def test_the_backoff_is_reset_after_two_minutes() -> None:
    backoff = Backoff(Fixed(0.0))
    for now in range(8):
        backoff.pause(float(now))
    assert backoff.pause(7.0 + MAX_PAUSE + HEALTHY) == MAX_PAUSE
    assert backoff.pause(7.0 + 3 * MAX_PAUSE + 3 * HEALTHY) == FIRST_PAUSE


def test_pauses_after_a_return_stay_short_while_the_server_starts() -> None:
    backoff = Backoff(Fixed(0.0))
    for now in range(8):
        backoff.pause(float(now))
    backoff.begin_anew(100.0)
    assert [backoff.pause(100.0 + at) for at in (0, 1, 14, 15, 16)] == [0.8, 0.8, 0.8, 0.8, 1.6]
