"""One answer after another: what is asked, what is delivered, what is remembered."""

import json
from collections.abc import Sequence
from random import Random
from typing import Any

import pytest

from hsdns.apiserver.reflector import (
    MANY_ERRORS,
    STATE_SILENCE,
    WATCH_SILENCE,
    Ask,
    Key,
    Observer,
    Purpose,
    Reflector,
)
from hsdns.apiserver.resource import SERVICES, Scope
from hsdns.cluster.objects import Deleted, Event, Upserted

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


class ObservedReflector(Observer):
    """A reflector, what it delivered and what it told."""

    def __init__(self) -> None:
        self.delivered: list[str] = []
        self.told: list[str] = []
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

    def relisted(self, reason: str, missed: int) -> None:
        self.told.append(f"relisted: {reason}, {missed} missed")

    def ask(self, purpose: Purpose, **query: str) -> Ask:
        """Take the next request, which must be this one."""
        ask = self.reflector.ask()
        rest = {name: text for name, text in ask.query.items() if name not in NAMES}
        assert (ask.purpose, rest) == (purpose, query)
        return ask

    def answer(self, *chunks: bytes, error: str = "", seconds: float = 60.0) -> list[str]:
        """Answer 200 with these chunks; give what was delivered."""
        self.delivered.clear()
        self.reflector.opened(self.now)
        for chunk in chunks:
            if not self.reflector.feed(chunk):
                break
        self.now += seconds
        self.reflector.ended(self.now, error)
        return self.delivered

    def stream(self, *chunks: bytes, **more: Any) -> list[str]:
        self.ask(Purpose.STREAM, sendInitialEvents="true", resourceVersionMatch="NotOlderThan")
        return self.answer(*chunks, **more)

    def watch(self, version: str, *chunks: bytes, **more: Any) -> list[str]:
        self.ask(Purpose.WATCH, resourceVersion=version)
        return self.answer(*chunks, **more)

    def synced(self, *names: str, version: int = 10) -> "ObservedReflector":
        """Bring it to where these Services are known."""
        self.stream(*(line("ADDED", name, 1) for name in names), end_of_state(version))
        assert self.reflector.synced
        self.told.clear()
        return self


def test_a_stream_is_the_state_and_the_watch_after_it() -> None:
    observed = ObservedReflector()
    delivered = observed.stream(
        line("ADDED", "a", 3) + line("ADDED", "b", 2),
        end_of_state(9),
        line("MODIFIED", "a", 10) + line("DELETED", "b", 11),
    )
    assert delivered == ["+a", "+b", "+a", "-b"]
    assert observed.told == ["relisted: start, 0 missed"]
    assert (observed.reflector.version, observed.reflector.known) == ("11", {("n", "a")})
    assert observed.reflector.failure == ""
    observed.ask(Purpose.WATCH, resourceVersion="11")


def test_what_every_watch_asks_for() -> None:
    observed = ObservedReflector()
    query = observed.ask(
        Purpose.STREAM, sendInitialEvents="true", resourceVersionMatch="NotOlderThan"
    ).query
    assert (query["watch"], query["allowWatchBookmarks"]) == ("true", "true")
    assert 300 <= int(query["timeoutSeconds"]) <= 600


def test_objects_of_the_initial_state_move_no_version() -> None:
    observed = ObservedReflector()
    assert observed.stream(line("ADDED", "a", 99), error="cut") == ["+a"]
    assert observed.reflector.version == ""
    assert not observed.reflector.synced


def test_a_stream_that_broke_off_is_followed_by_a_list_and_forgets_nothing() -> None:
    observed = ObservedReflector()
    observed.stream(line("ADDED", "a", 3) + line("ADDED", "b", 4), error="the connection was cut")
    assert observed.reflector.failure == "the connection was cut"
    observed.ask(Purpose.LIST, limit="500")
    # a was deleted in between, and c added: what the stream delivered counts as known.
    assert observed.answer(page("b", "c", version=12)) == ["+b", "+c", "-a"]
    assert observed.reflector.known == {("n", "b"), ("n", "c")}
    observed.ask(Purpose.WATCH, resourceVersion="12")


@pytest.mark.parametrize("how", ["event", "refused"])
def test_a_stream_that_the_server_cannot_make_is_followed_by_a_list(how: str) -> None:
    # An API server over an etcd before 3.4.25 says 200, and then this.
    observed = ObservedReflector()
    if how == "event":
        observed.stream(error(500, "the required storage feature RequestWatchProgress is disabled"))
    else:
        observed.ask(Purpose.STREAM, sendInitialEvents="true", resourceVersionMatch="NotOlderThan")
        observed.reflector.refused(500, "")
    assert observed.reflector.pause(observed.now) == 0.0
    observed.ask(Purpose.LIST, limit="500")
    assert observed.answer(page("a", version=7)) == ["+a"]
    observed.ask(Purpose.WATCH, resourceVersion="7")


@pytest.mark.parametrize("status", [400, 422])
def test_a_server_that_does_not_stream_is_asked_for_pages(status: int) -> None:
    observed = ObservedReflector()
    observed.ask(Purpose.STREAM, sendInitialEvents="true", resourceVersionMatch="NotOlderThan")
    observed.reflector.refused(status, '{"kind":"Status","reason":"Invalid"}')
    assert (observed.reflector.failure, observed.reflector.pause(0.0)) == ("", 0.0)
    observed.ask(Purpose.LIST, limit="500")
    assert observed.answer(page("a", version=7, following="t1")) == ["+a"]
    assert not observed.reflector.synced
    observed.ask(Purpose.LIST, **{"limit": "500", "continue": "t1"})
    assert observed.answer(page("b", version=7)) == ["+b"]
    assert observed.told == ["relisted: start, 0 missed"]
    assert observed.watch("7", line("ADDED", "c", 8)) == ["+c"]
    # And it is not asked to stream again.
    observed.watch("8", error(410))
    observed.ask(Purpose.LIST, limit="500")


def test_a_page_that_broke_off_is_asked_for_again() -> None:
    observed = ObservedReflector()
    observed.stream(error="cut")
    observed.ask(Purpose.LIST, limit="500")
    observed.answer(page("a", version=7, following="t1"))
    observed.ask(Purpose.LIST, **{"limit": "500", "continue": "t1"})
    assert observed.answer(page("b", version=7)[:20], error="the connection was cut") == []
    assert observed.reflector.failure == "the connection was cut"
    observed.ask(Purpose.LIST, **{"limit": "500", "continue": "t1"})
    assert observed.answer(page("b", version=7)) == ["+b"]
    assert observed.reflector.known == {("n", "a"), ("n", "b")}


def test_a_list_whose_rest_has_expired_is_asked_for_as_a_whole() -> None:
    observed = ObservedReflector()
    observed.stream(error="cut")
    observed.ask(Purpose.LIST, limit="500")
    observed.answer(page("a", version=7, following="t1"))
    observed.ask(Purpose.LIST, **{"limit": "500", "continue": "t1"})
    observed.reflector.refused(410, '{"kind":"Status","code":410,"message":"token expired"}')
    observed.ask(Purpose.LIST)
    # Its beginning has changed meanwhile.
    assert observed.answer(page("b", "c", version=9)) == ["+b", "+c", "-a"]


@pytest.mark.parametrize(
    ("gone", "how"),
    [
        pytest.param(410, "refused", id="410"),
        pytest.param(410, "event", id="410 as an event"),
        pytest.param(400, "refused", id="a version that this server cannot read"),
        pytest.param(504, "refused", id="a version from the future"),
        pytest.param(504, "event", id="a version from the future, as an event"),
    ],
)
def test_history_that_is_gone_means_the_state_anew(gone: int, how: str) -> None:
    observed = ObservedReflector().synced("a", "b")
    details: dict[str, Any] = (
        {"details": {"causes": [{"reason": "ResourceVersionTooLarge"}]}} if gone == 504 else {}
    )
    if how == "event":
        observed.watch("10", line("MODIFIED", "a", 11), error(gone, **details))
        assert observed.delivered == ["+a"]
    else:
        observed.ask(Purpose.WATCH, resourceVersion="10")
        observed.reflector.refused(gone, json.dumps({"kind": "Status", "code": gone, **details}))
    # No failure and no pause: the state is asked for at once, and what is known stays.
    assert (observed.reflector.failure, observed.reflector.pause(0.0)) == ("", 0.0)
    assert observed.reflector.known == {("n", "a"), ("n", "b")}
    assert observed.stream(line("ADDED", "b", 2), end_of_state(20)) == ["+b", "-a"]
    assert observed.told == ["relisted: expired, 1 missed"]
    observed.ask(Purpose.WATCH, resourceVersion="20")


def test_a_state_that_expires_again_waits() -> None:
    observed = ObservedReflector().synced("a")
    observed.watch("10", error(410))
    observed.stream(error(410))
    assert observed.reflector.failure == "the server answers 410: because"
    assert observed.reflector.pause(observed.now) >= 0.8


@pytest.mark.parametrize(
    ("chunks", "delivered", "version"),
    [
        pytest.param([line("BOOKMARK", version=15)], [], "15", id="a bookmark"),
        pytest.param([line("ADDED", "b", 11)], ["+b"], "11", id="an event"),
        pytest.param([line("ADDED", "b", 11) + line("ADDED", "c", 12)[:25]], ["+b"], "11", id="half a line"),
        pytest.param([line("MODIFIED", "a", 11), line("MODIFIED", "a", 11)], ["+a", "+a"], "11", id="the same event twice"),
        pytest.param([], [], "10", id="nothing"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("end", ["", "the connection was cut"])
def test_a_watch_goes_on_where_it_ended(
    chunks: list[bytes], delivered: list[str], version: str, end: str
) -> None:
    observed = ObservedReflector().synced("a")
    assert observed.watch("10", *chunks, error=end) == delivered
    assert observed.reflector.failure == end
    assert observed.told == []
    observed.ask(Purpose.WATCH, resourceVersion=version)


def test_a_watch_that_ends_as_it_begins_waits() -> None:
    observed = ObservedReflector().synced("a")
    observed.watch("10", seconds=0.1)
    assert observed.reflector.failure == "the watch ended as soon as it began"
    assert observed.reflector.pause(observed.now) >= 0.8


@pytest.mark.parametrize(
    "chunk",
    [
        pytest.param(b"<html>no</html>\n", id="a line that is no event"),
        pytest.param(error(500), id="an ERROR event"),
    ],
)
def test_wrong_answers_time_and_again_mean_the_state_anew(chunk: bytes) -> None:
    observed = ObservedReflector().synced("a")
    for _ in range(MANY_ERRORS):
        observed.watch("10", chunk)
        assert observed.reflector.failure
        assert observed.reflector.pause(observed.now) >= 0.8
    observed.stream(end_of_state(30))
    assert observed.told == ["relisted: errors, 1 missed"]


def test_a_server_that_is_away_is_no_reason_to_list() -> None:
    observed = ObservedReflector().synced("a")
    for _ in range(20):
        observed.ask(Purpose.WATCH, resourceVersion="10")
        observed.reflector.failed("connection refused")
    observed.ask(Purpose.WATCH, resourceVersion="10")


def test_an_object_of_a_wrong_form_keeps_what_was_served_of_it() -> None:
    observed = ObservedReflector().synced("a", "b")
    bad = line("MODIFIED", "a", 11, spec=[])
    assert observed.watch("10", bad + line("MODIFIED", "b", 12)) == ["+b"]
    assert observed.told == ["rejected n/a: Expected `object`, got `array` - at `$.object.spec`"]
    observed.told.clear()
    # In a whole state it counts as there; one that was never readable does not.
    observed.watch("12", error(410))
    state = line("ADDED", "a", 11, spec=[]) + line("ADDED", "c", 9, spec=[]) + end_of_state(20)
    assert observed.stream(state) == ["-b"]
    assert observed.reflector.known == {("n", "a")}


def test_a_line_that_is_too_long_deletes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    observed = ObservedReflector().synced("a", "b")
    monkeypatch.setattr("hsdns.apiserver.lines.LineSplitter.__init__.__defaults__", (120,))
    observed.watch("10", error(410))
    chunks = line("ADDED", "a", 9) + line("ADDED", "b", 9, spec={"externalName": "x" * 200})
    assert observed.stream(chunks[:150], chunks[150:], end_of_state(20)) == ["+a"]
    assert observed.reflector.known == {("n", "a"), ("n", "b")}


@pytest.mark.parametrize(
    ("status", "message", "failure"),
    [
        pytest.param(401, "Unauthorized", "the server does not accept these credentials (401): Unauthorized; look at the token or certificate", id="401"),
        pytest.param(403, "services is forbidden", "the server forbids it (403): services is forbidden; grant list and watch on it to this account", id="403"),
        pytest.param(429, "slow down", "the server has too much to do (429): slow down", id="429"),
        pytest.param(503, "", "the server answers 503: no reason given", id="503"),
    ],
)  # fmt: skip
def test_refusals_are_sentences(status: int, message: str, failure: str) -> None:
    observed = ObservedReflector()
    observed.reflector.ask()
    observed.reflector.refused(status, json.dumps({"kind": "Status", "message": message}))
    assert (observed.reflector.failure, observed.reflector.forbidden) == (failure, status == 403)


def test_the_server_says_how_long_to_wait() -> None:
    observed = ObservedReflector()
    observed.reflector.ask()
    observed.reflector.refused(429, "<p>slow down</p>", retry_after=17.0)
    assert observed.reflector.pause(0.0) == 17.0
    # And it holds for this once.
    observed.reflector.ask()
    observed.reflector.failed("connection refused")
    assert observed.reflector.pause(0.0) < 4.0


def test_retry_after_in_an_error_event() -> None:
    observed = ObservedReflector().synced("a")
    observed.watch("10", error(429, details={"retryAfterSeconds": 9}))
    assert observed.reflector.pause(observed.now) == 9.0


def test_an_empty_state_is_delivered_as_nothing() -> None:
    observed = ObservedReflector()
    calls: list[int] = []
    observed.reflector = Reflector(
        Scope(SERVICES), lambda events: calls.append(len(events)), observed, Random(1)
    )
    observed.stream(end_of_state(5))
    assert (calls, observed.reflector.synced) == ([0], True)


def test_silence_is_shorter_while_the_state_comes() -> None:
    observed = ObservedReflector()
    assert observed.reflector.ask().silence == STATE_SILENCE
    observed.reflector.opened(0.0)
    assert observed.reflector.silence == STATE_SILENCE
    observed.reflector.feed(end_of_state(5))
    assert observed.reflector.silence == WATCH_SILENCE
    observed.reflector.ended(100.0)
    assert observed.reflector.ask().silence == WATCH_SILENCE


def test_what_is_assumed_ends_with_the_next_state() -> None:
    observed = ObservedReflector()
    observed.reflector.assume(("n", "a"))
    assert observed.stream(end_of_state(5)) == ["-a"]


def test_distrust_asks_for_the_state_and_keeps_what_is_known() -> None:
    observed = ObservedReflector().synced("a")
    observed.reflector.distrust("distrust")
    assert observed.stream(line("ADDED", "a", 5), end_of_state(6)) == ["+a"]
    assert observed.told == ["relisted: distrust, 0 missed"]
