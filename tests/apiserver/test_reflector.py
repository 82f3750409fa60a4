"""One answer after another: what is asked, what is delivered, what is remembered."""

import json
from collections.abc import Sequence
from random import Random
from typing import Any

import pytest

from hsdns.apiserver.reflector import (
    MAX_ERRORS,
    STATE_READ_TIMEOUT,
    WATCH_READ_TIMEOUT,
    Key,
    Observer,
    Purpose,
    Reflector,
    Request,
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


class Rig(Observer):
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

    def ask(self, purpose: Purpose, **query: str) -> Request:
        """Take the next request, which must be this one."""
        ask = self.reflector.next_request()
        rest = {name: text for name, text in ask.query.items() if name not in NAMES}
        assert (ask.purpose, rest) == (purpose, query)
        return ask

    def answer(self, *chunks: bytes, error: str = "", seconds: float = 60.0) -> list[str]:
        """Answer 200 with these chunks; give what was delivered."""
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

    def synced(self, *names: str, version: int = 10) -> "Rig":
        """Bring it to where these Services are known."""
        self.stream(*(line("ADDED", name, 1) for name in names), end_of_state(version))
        assert self.reflector.synced
        self.told.clear()
        return self


def test_a_stream_is_the_state_and_the_watch_after_it() -> None:
    rig = Rig()
    delivered = rig.stream(
        line("ADDED", "a", 3) + line("ADDED", "b", 2),
        end_of_state(9),
        line("MODIFIED", "a", 10) + line("DELETED", "b", 11),
    )
    assert delivered == ["+a", "+b", "+a", "-b"]
    assert rig.told == ["relisted: start, 0 missed"]
    assert (rig.reflector.version, rig.reflector.known) == ("11", {("n", "a")})
    assert rig.reflector.failure == ""
    rig.ask(Purpose.WATCH, resourceVersion="11")


def test_what_every_watch_asks_for() -> None:
    rig = Rig()
    query = rig.ask(
        Purpose.STREAM, sendInitialEvents="true", resourceVersionMatch="NotOlderThan"
    ).query
    assert (query["watch"], query["allowWatchBookmarks"]) == ("true", "true")
    assert 300 <= int(query["timeoutSeconds"]) <= 600


def test_objects_of_the_initial_state_move_no_version() -> None:
    rig = Rig()
    assert rig.stream(line("ADDED", "a", 99), error="cut") == ["+a"]
    assert rig.reflector.version == ""
    assert not rig.reflector.synced


def test_a_stream_that_broke_off_is_followed_by_a_list_and_forgets_nothing() -> None:
    rig = Rig()
    rig.stream(line("ADDED", "a", 3) + line("ADDED", "b", 4), error="the connection was cut")
    assert rig.reflector.failure == "the connection was cut"
    rig.ask(Purpose.LIST, limit="500")
    # a was deleted in between, and c added: what the stream delivered counts as known.
    assert rig.answer(page("b", "c", version=12)) == ["+b", "+c", "-a"]
    assert rig.reflector.known == {("n", "b"), ("n", "c")}
    rig.ask(Purpose.WATCH, resourceVersion="12")


@pytest.mark.parametrize("how", ["event", "refused"])
def test_a_stream_that_the_server_cannot_make_is_followed_by_a_list(how: str) -> None:
    # An API server over an etcd before 3.4.25 says 200, and then this.
    rig = Rig()
    if how == "event":
        rig.stream(error(500, "the required storage feature RequestWatchProgress is disabled"))
    else:
        rig.ask(Purpose.STREAM, sendInitialEvents="true", resourceVersionMatch="NotOlderThan")
        rig.reflector.refuse(500, "")
    assert rig.reflector.pause(rig.now) == 0.0
    rig.ask(Purpose.LIST, limit="500")
    assert rig.answer(page("a", version=7)) == ["+a"]
    rig.ask(Purpose.WATCH, resourceVersion="7")


@pytest.mark.parametrize("status", [400, 422])
def test_a_server_that_does_not_stream_is_asked_for_pages(status: int) -> None:
    rig = Rig()
    rig.ask(Purpose.STREAM, sendInitialEvents="true", resourceVersionMatch="NotOlderThan")
    rig.reflector.refuse(status, '{"kind":"Status","reason":"Invalid"}')
    assert (rig.reflector.failure, rig.reflector.pause(0.0)) == ("", 0.0)
    rig.ask(Purpose.LIST, limit="500")
    assert rig.answer(page("a", version=7, following="t1")) == ["+a"]
    assert not rig.reflector.synced
    rig.ask(Purpose.LIST, **{"limit": "500", "continue": "t1"})
    assert rig.answer(page("b", version=7)) == ["+b"]
    assert rig.told == ["relisted: start, 0 missed"]
    assert rig.watch("7", line("ADDED", "c", 8)) == ["+c"]
    # And it is not asked to stream again.
    rig.watch("8", error(410))
    rig.ask(Purpose.LIST, limit="500")


def test_a_page_that_broke_off_is_asked_for_again() -> None:
    rig = Rig()
    rig.stream(error="cut")
    rig.ask(Purpose.LIST, limit="500")
    rig.answer(page("a", version=7, following="t1"))
    rig.ask(Purpose.LIST, **{"limit": "500", "continue": "t1"})
    assert rig.answer(page("b", version=7)[:20], error="the connection was cut") == []
    assert rig.reflector.failure == "the connection was cut"
    rig.ask(Purpose.LIST, **{"limit": "500", "continue": "t1"})
    assert rig.answer(page("b", version=7)) == ["+b"]
    assert rig.reflector.known == {("n", "a"), ("n", "b")}


def test_a_list_whose_rest_has_expired_is_asked_for_as_a_whole() -> None:
    rig = Rig()
    rig.stream(error="cut")
    rig.ask(Purpose.LIST, limit="500")
    rig.answer(page("a", version=7, following="t1"))
    rig.ask(Purpose.LIST, **{"limit": "500", "continue": "t1"})
    rig.reflector.refuse(410, '{"kind":"Status","code":410,"message":"token expired"}')
    rig.ask(Purpose.LIST)
    # Its beginning has changed meanwhile.
    assert rig.answer(page("b", "c", version=9)) == ["+b", "+c", "-a"]


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
    rig = Rig().synced("a", "b")
    details: dict[str, Any] = (
        {"details": {"causes": [{"reason": "ResourceVersionTooLarge"}]}} if gone == 504 else {}
    )
    if how == "event":
        rig.watch("10", line("MODIFIED", "a", 11), error(gone, **details))
        assert rig.delivered == ["+a"]
    else:
        rig.ask(Purpose.WATCH, resourceVersion="10")
        rig.reflector.refuse(gone, json.dumps({"kind": "Status", "code": gone, **details}))
    # No failure and no pause: the state is asked for at once, and what is known stays.
    assert (rig.reflector.failure, rig.reflector.pause(0.0)) == ("", 0.0)
    assert rig.reflector.known == {("n", "a"), ("n", "b")}
    assert rig.stream(line("ADDED", "b", 2), end_of_state(20)) == ["+b", "-a"]
    assert rig.told == ["relisted: expired, 1 missed"]
    rig.ask(Purpose.WATCH, resourceVersion="20")


def test_a_state_that_expires_again_waits() -> None:
    rig = Rig().synced("a")
    rig.watch("10", error(410))
    rig.stream(error(410))
    assert rig.reflector.failure == "the server responds 410: because"
    assert rig.reflector.pause(rig.now) >= 0.8


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
    rig = Rig().synced("a")
    assert rig.watch("10", *chunks, error=end) == delivered
    assert rig.reflector.failure == end
    assert rig.told == []
    rig.ask(Purpose.WATCH, resourceVersion=version)


def test_a_watch_that_ends_as_it_begins_waits() -> None:
    rig = Rig().synced("a")
    rig.watch("10", seconds=0.1)
    assert rig.reflector.failure == "very short watch: it ended within a second without events"
    assert rig.reflector.pause(rig.now) >= 0.8


@pytest.mark.parametrize(
    "chunk",
    [
        pytest.param(b"<html>no</html>\n", id="a line that is no event"),
        pytest.param(error(500), id="an ERROR event"),
    ],
)
def test_wrong_answers_time_and_again_mean_the_state_anew(chunk: bytes) -> None:
    rig = Rig().synced("a")
    for _ in range(MAX_ERRORS):
        rig.watch("10", chunk)
        assert rig.reflector.failure
        assert rig.reflector.pause(rig.now) >= 0.8
    rig.stream(end_of_state(30))
    assert rig.told == ["relisted: errors, 1 missed"]


def test_a_server_that_is_away_is_no_reason_to_list() -> None:
    rig = Rig().synced("a")
    for _ in range(20):
        rig.ask(Purpose.WATCH, resourceVersion="10")
        rig.reflector.fail("connection refused")
    rig.ask(Purpose.WATCH, resourceVersion="10")


def test_an_object_of_a_wrong_form_keeps_what_was_served_of_it() -> None:
    rig = Rig().synced("a", "b")
    bad = line("MODIFIED", "a", 11, spec=[])
    assert rig.watch("10", bad + line("MODIFIED", "b", 12)) == ["+b"]
    assert rig.told == ["rejected n/a: Expected `object`, got `array` - at `$.object.spec`"]
    rig.told.clear()
    # In a whole state it counts as there; one that was never readable does not.
    rig.watch("12", error(410))
    state = line("ADDED", "a", 11, spec=[]) + line("ADDED", "c", 9, spec=[]) + end_of_state(20)
    assert rig.stream(state) == ["-b"]
    assert rig.reflector.known == {("n", "a")}


def test_a_line_that_is_too_long_deletes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = Rig().synced("a", "b")
    monkeypatch.setattr("hsdns.apiserver.lines.LineSplitter.__init__.__defaults__", (120,))
    rig.watch("10", error(410))
    chunks = line("ADDED", "a", 9) + line("ADDED", "b", 9, spec={"externalName": "x" * 200})
    assert rig.stream(chunks[:150], chunks[150:], end_of_state(20)) == ["+a"]
    assert rig.reflector.known == {("n", "a"), ("n", "b")}


@pytest.mark.parametrize(
    ("status", "message", "failure"),
    [
        pytest.param(401, "Unauthorized", "the server rejects these credentials (401): Unauthorized; check the token or certificate", id="401"),
        pytest.param(403, "services is forbidden", "the server denies access (403): services is forbidden; grant this account list and watch on it", id="403"),
        pytest.param(429, "slow down", "the server is overloaded (429): slow down", id="429"),
        pytest.param(503, "", "the server responds 503: no reason given", id="503"),
    ],
)  # fmt: skip
def test_refusals_are_sentences(status: int, message: str, failure: str) -> None:
    rig = Rig()
    rig.reflector.next_request()
    rig.reflector.refuse(status, json.dumps({"kind": "Status", "message": message}))
    assert (rig.reflector.failure, rig.reflector.forbidden) == (failure, status == 403)


def test_the_server_says_how_long_to_wait() -> None:
    rig = Rig()
    rig.reflector.next_request()
    rig.reflector.refuse(429, "<p>slow down</p>", retry_after=17.0)
    assert rig.reflector.pause(0.0) == 17.0
    # And it holds for this once.
    rig.reflector.next_request()
    rig.reflector.fail("connection refused")
    assert rig.reflector.pause(0.0) < 4.0


def test_retry_after_in_an_error_event() -> None:
    rig = Rig().synced("a")
    rig.watch("10", error(429, details={"retryAfterSeconds": 9}))
    assert rig.reflector.pause(rig.now) == 9.0


def test_an_empty_state_is_delivered_as_nothing() -> None:
    rig = Rig()
    calls: list[int] = []
    rig.reflector = Reflector(
        Scope(SERVICES), lambda events: calls.append(len(events)), rig, Random(1)
    )
    rig.stream(end_of_state(5))
    assert (calls, rig.reflector.synced) == ([0], True)


def test_silence_is_shorter_while_the_state_comes() -> None:
    rig = Rig()
    assert rig.reflector.next_request().read_timeout == STATE_READ_TIMEOUT
    rig.reflector.open(0.0)
    assert rig.reflector.read_timeout == STATE_READ_TIMEOUT
    rig.reflector.receive_data(end_of_state(5))
    assert rig.reflector.read_timeout == WATCH_READ_TIMEOUT
    rig.reflector.close(100.0)
    assert rig.reflector.next_request().read_timeout == WATCH_READ_TIMEOUT


def test_what_is_assumed_ends_with_the_next_state() -> None:
    rig = Rig()
    rig.reflector.assume(("n", "a"))
    assert rig.stream(end_of_state(5)) == ["-a"]


def test_distrust_asks_for_the_state_and_keeps_what_is_known() -> None:
    rig = Rig().synced("a")
    rig.reflector.relist("distrust")
    assert rig.stream(line("ADDED", "a", 5), end_of_state(6)) == ["+a"]
    assert rig.told == ["relisted: distrust, 0 missed"]
