"""Events, pages and statuses in JSON."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hsdns.apiserver.resource import ENDPOINT_SLICES, SERVICES
from hsdns.apiserver.watch_event import (
    Event,
    LineSplitter,
    MalformedEvent,
    Status,
    decode_event,
    decode_page,
    decode_status,
)
from hsdns.cluster.objects import EndpointSlice, ObjectMeta

META = {
    "name": "web",
    "namespace": "shop",
    "resourceVersion": "7",
    "managedFields": [{"manager": "x"}],
}


def line(kind: str, found: Any) -> bytes:
    return json.dumps({"type": kind, "object": found}).encode()


@pytest.mark.parametrize(
    ("data", "says"),
    [
        pytest.param(b"<html><body>Bad gateway</body></html>", '"<html><body>Bad gateway</body></html>"', id="HTML"),
        pytest.param(b'{"type":"ADDED","object":{"metadata":{"name":"w', '"{"type":"ADDED","object":{"metadata":{"name":"w"', id="half a line"),
        pytest.param(line("RENAMED", {"metadata": META}), 'an event of type "RENAMED"', id="unknown type"),
        pytest.param(line("ADDED", {"metadata": {}}), "an object without a name", id="no name"),
        pytest.param(line("ADDED", {"metadata": {}, "spec": 1}), "an object without a name", id="no name, wrong form"),
        pytest.param(line("ERROR", {"code": "four"}), "an ERROR event that is not a Status (Expected `int`, got `str` - at `$.object.code`)", id="error that is no Status"),
        pytest.param(b"\xff\xfe", '"\ufffd\ufffd"', id="no text"),
        pytest.param(b"   ", "nothing", id="nothing"),
        pytest.param(b'{"type":"ADDED","object":' + b"[" * 100_000, '"' + ('{"type":"ADDED","object":' + "[" * 95) + '"', id="deep nesting"),
    ],
)  # fmt: skip
def test_what_is_no_event(data: bytes, says: str) -> None:
    with pytest.raises(MalformedEvent) as raised:
        decode_event(data, SERVICES)
    assert str(raised.value) == says


@given(st.binary(max_size=80) | st.text(max_size=80).map(str.encode))
def test_any_line_is_an_event_or_none(data: bytes) -> None:
    try:
        decode_event(data, ENDPOINT_SLICES)
    except MalformedEvent as error:
        assert str(error)


def test_a_malformed_object_does_not_hide_others() -> None:
    items = [
        {"metadata": {"name": "a", "namespace": "n"}, "endpoints": 5},
        {"metadata": {"name": "b", "namespace": "n"}, "endpoints": None},
    ]
    body = json.dumps({"metadata": {"resourceVersion": "12"}, "items": items}).encode()
    fault = "Expected `array | null`, got `int` - at `$.endpoints`"
    assert list(decode_page(body, ENDPOINT_SLICES).events) == [
        Event("ADDED", None, "", ("n", "a"), fault=fault),
        Event("ADDED", EndpointSlice(ObjectMeta(name="b", namespace="n")), "", ("n", "b")),
    ]


@pytest.mark.parametrize("body", [b"<html>", b'{"items":5}', b'{"items":[5]}', b""])
def test_what_is_no_list(body: bytes) -> None:
    with pytest.raises(MalformedEvent):
        decode_page(body, SERVICES)


@pytest.mark.parametrize(
    ("text", "code", "status", "expired"),
    [
        pytest.param('{"kind":"Status","code":410,"message":"gone"}', 410, Status("Status", 410, "", "gone"), True, id="410"),
        pytest.param('{"kind":"Status","reason":"Expired"}', 200, Status("Status", 200, "Expired"), True, id="by its reason"),
        pytest.param("<h1>Bad  gateway</h1>", 502, Status("", 502, "", '"<h1>Bad gateway</h1>"'), False, id="HTML"),
        pytest.param("", 503, Status("", 503, "", "nothing"), False, id="no body"),
    ],
)  # fmt: skip
def test_decode_status(text: str, code: int, status: Status, expired: bool) -> None:
    assert decode_status(text, code) == status
    assert status.is_expired is expired


@pytest.mark.parametrize(
    "chunks",
    [
        pytest.param([b"0123456789abc\nok\n"], id="at once"),
        pytest.param([b"01234567", b"89abc", b"def", b"\nok\n"], id="in pieces"),
    ],
)
def test_a_line_above_the_limit_is_skipped(chunks: list[bytes]) -> None:
    splitter = LineSplitter(limit=10)
    lines = [line for chunk in chunks for line in splitter.feed(chunk)]
    # A line that came whole is in memory anyway; the limit is for what must be kept.
    assert lines[-1] == b"ok"
    assert (splitter.skipped, len(lines)) == (1, 1)


AT_ONCE = """
import sys, threading
import msgspec
from hsdns.apiserver.watch_event import decode_page
from hsdns.apiserver.resource import ENDPOINT_SLICES, NAMESPACES, PODS, SERVICES
from hsdns.cluster.objects import KINDS

PAGE = b'{"metadata": {"resourceVersion": "1"}, "items": [{"metadata": {"name": "a", "resourceVersion": "1"}}]}'
sys.setswitchinterval(1e-6)
ready = threading.Barrier(4)

def read():
    ready.wait()
    for kind in KINDS.values():
        msgspec.json.decode(b'{"metadata": {"name": "a"}}', type=kind)
    for resource in (SERVICES, ENDPOINT_SLICES, NAMESPACES, PODS):
        decode_page(PAGE, resource)

threads = [threading.Thread(target=read) for _ in range(4)]
for each in threads:
    each.start()
for each in threads:
    each.join()
"""


def test_threads_that_read_their_first_objects_at_once() -> None:
    """Two of three of these processes crashed without what objects.py and watch_event.py do about it."""
    processes = [subprocess.Popen([sys.executable, "-c", AT_ONCE]) for _ in range(6)]
    assert [each.wait() for each in processes] == [0] * 6
