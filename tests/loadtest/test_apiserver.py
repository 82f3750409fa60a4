"""The fake API server, which tests of the watches rest on; tests/apiserver/test_contract.py compares it with a real one."""

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import aiohttp
import pytest

from hsdns.apiserver.resource import PROTOBUF
from hsdns.cluster.objects import CHANGE_TIME
from hsdns.cluster.read_object import read_time
from loadtest.apiserver import faults
from loadtest.apiserver.control import LoadedCluster
from loadtest.apiserver.fake_api import FakeApi
from loadtest.apiserver.fake_cluster import FakeCluster
from loadtest.apiserver.faults import Fault
from loadtest.apiserver.selectors import parse_fields, parse_labels
from loadtest.apiserver.watch_stream import INITIAL_EVENTS_END, Watch
from tests.support.tables import columns

TABLES = Path(__file__).with_name("tables.txt")

SERVICES = "/api/v1/services"
STREAM = {
    "sendInitialEvents": "true",
    "resourceVersionMatch": "NotOlderThan",
    "allowWatchBookmarks": "true",
}


def service(name: str, **labels: str) -> dict[str, Any]:
    return {"kind": "Service", "metadata": {"name": name, "namespace": "one", "labels": labels}}


def cluster_of(*names: str, **options: Any) -> FakeCluster:
    cluster = FakeCluster(**options)
    for name in names:
        cluster.apply(service(name))
    return cluster


def listed(cluster: FakeCluster, query: Mapping[str, str]) -> Any:
    """The status, and the decoded body."""
    status, _, body = cluster.list_body(SERVICES, query)
    return status, json.loads(body)


def opened(cluster: FakeCluster, query: Mapping[str, str]) -> Watch:
    status, _, watch = cluster.open_watch(SERVICES, query)
    assert status == 200
    assert isinstance(watch, Watch)
    return watch


def told(watch: Watch) -> list[str]:
    """What is due, a word for each line: `ADDED a 1`, `BOOKMARK 3`."""
    words = []
    for line in watch.take():
        event = json.loads(line)
        found = event["object"]
        if event["type"] == "ERROR":
            words.append(f"ERROR {found['code']}")
            continue
        meta = found["metadata"]
        end = " end" if INITIAL_EVENTS_END in meta.get("annotations", {}) else ""
        text = " ".join(filter(None, [event["type"], meta.get("name"), meta["resourceVersion"]]))
        words.append(text + end)
    return words


def test_pages_are_of_one_snapshot() -> None:
    cluster = cluster_of("a", "b", "c")
    _, page = listed(cluster, {"limit": "2"})
    cluster.delete(service("c"))
    cluster.apply(service("b", app="other"))
    cluster.apply(service("d"))
    _, rest = listed(cluster, {"limit": "2", "continue": page["metadata"]["continue"]})
    names = [each["metadata"]["name"] for each in page["items"] + rest["items"]]
    assert (names, rest["metadata"]) == (["a", "b", "c"], {"resourceVersion": "3"})
    cluster.compact()
    status, refusal = listed(cluster, {"limit": "1", "continue": page["metadata"]["continue"]})
    assert (status, refusal["reason"]) == (410, "Expired")
    _, rest = listed(cluster, {"continue": refusal["metadata"]["continue"]})
    assert [each["metadata"]["name"] for each in rest["items"]] == ["d"]


@pytest.mark.parametrize(("query", "expected"), columns(TABLES, "lists"))
def test_lists(query: str, expected: str) -> None:
    """The status, and the names."""
    status, body = listed(cluster_of("a", "b"), dict(parse_qsl(query)))
    names = [each["metadata"]["name"] for each in body.get("items", ())]
    assert " ".join([str(status), *names]) == expected


@pytest.mark.parametrize(("query", "expected"), columns(TABLES, "watches"))
def test_watches(query: str, expected: str) -> None:
    """What is told of a, b, and a change of b."""
    cluster = cluster_of("a", "b")
    status, _, watch = cluster.open_watch(SERVICES, dict(parse_qsl(query)))
    cluster.apply(service("b"))
    assert status == 200
    words = [json.loads(watch)["type"]] if isinstance(watch, bytes) else told(watch)
    assert ", ".join(words) == expected


@pytest.mark.parametrize(
    ("streaming", "query"),
    [(False, STREAM), (True, {"sendInitialEvents": "true"}), (True, {"resourceVersionMatch": "NotOlderThan"})],
    ids=["streams are switched off", "no match is named", "a match of nothing"],
)  # fmt: skip
def test_watches_that_are_refused(streaming: bool, query: dict[str, str]) -> None:
    status, _, body = cluster_of("a", streaming=streaming).open_watch(SERVICES, query)
    assert isinstance(body, bytes)
    assert (status, json.loads(body)["reason"]) == (422, "Invalid")


@pytest.mark.parametrize(("given", "selected"), columns(TABLES, "selectors"))
def test_selectors(given: str, selected: str) -> None:
    """A selector, and labels."""
    text, _, words = given.partition(" | ")
    labels = dict(each.partition("=")[::2] for each in words.split())
    text = text.strip(" |")
    assert parse_labels(text)({"metadata": {"labels": labels}}) is (selected == "yes")
    manifest = {"metadata": {"name": "a"}, "status": {"phase": "Running"}}
    assert parse_fields("metadata.name=a,spec.nodeName=")(manifest)
    assert not parse_fields("status.phase!=Running")(manifest)


def test_history_is_bounded_and_a_backup_can_be_put_back() -> None:
    cluster = cluster_of(*"abcdefghijk", history=4)
    cache = cluster.caches["Service"]
    assert 4 <= cache.end - cache.begin <= 8
    assert told(opened(cluster, {"resourceVersion": str(cache.oldest)}))[-1] == "ADDED k 11"
    assert cluster.open_watch(SERVICES, {"resourceVersion": str(cache.oldest - 1)})[0] == 410
    cluster.delete(service("a"))
    cluster.rewind(11)
    _, page = listed(cluster, {})
    assert (len(page["items"]), page["metadata"]["resourceVersion"]) == (11, "11")


@pytest.mark.parametrize("fault", [faults.refused(), faults.unavailable(3), faults.html_page()])
@pytest.mark.parametrize("query", [{}, {"watch": "1"}])
def test_what_is_no_answer_of_the_server_is_not_written_as_protobuf(
    fault: Fault, query: dict[str, str]
) -> None:
    cluster = FakeCluster(protobuf=True)
    cluster.fail(fault)
    found = cluster.answer(SERVICES, query, accept=PROTOBUF)
    assert (found.fault, found.body) == (fault, fault.body)


LINE = (
    b'{"type":"ADDED","object":{"kind":"Service","metadata":{"name":"a","namespace":"one","labels":{},'
    b'"resourceVersion":"1","uid":"services-1"},"apiVersion":"v1"}}\n'
)


@pytest.mark.sockets
@pytest.mark.parametrize(
    ("fault", "expected"),
    [
        pytest.param(faults.cut(0), (b"", "cut"), id="cut before the body"),
        pytest.param(faults.cut(30), (LINE[:30], "cut"), id="cut in a line"),
        pytest.param(faults.ended(30), (LINE[:30], "ended"), id="ended in a line"),
        pytest.param(faults.silent(30), (LINE[:30], "silent"), id="silent"),
        pytest.param(faults.slowly(1), (LINE, "silent"), id="octet by octet, then open"),
        pytest.param(faults.refused(), (b"", "refused"), id="refused"),
        pytest.param(faults.html_page(502), (faults.PAGE, "ended"), id="a page of HTML"),
    ],
)
def test_faults_on_a_connection(fault: Fault, expected: tuple[bytes, str]) -> None:
    data, end = expected

    async def ask() -> tuple[bytes, str]:
        found = b""
        async with FakeApi() as api, aiohttp.ClientSession(api.url) as session:
            api.apply(service("a"))
            api.cluster.fail(fault, times=2)  # aiohttp tries once more where it got no answer
            try:
                async with session.get(f"{SERVICES}?watch=true") as response:
                    while end != "silent" or len(found) < len(data):
                        chunk = await response.content.readany()
                        if not chunk:
                            return found, "ended"
                        found += chunk
                    return found, "silent"
            except aiohttp.ServerDisconnectedError:
                return found, "refused"
            except aiohttp.ClientPayloadError:
                return found, "cut"

    assert asyncio.run(ask()) == (data, end)


def test_a_change_replaces_one_address_and_the_version() -> None:
    cluster = FakeCluster()
    load = LoadedCluster(cluster)
    load.add(2, 5)
    before = cluster.objects("EndpointSlice")
    assert all(2400 <= len(each.data) <= 3000 for each in cluster.caches["EndpointSlice"].objects.values())  # fmt: skip
    changed = [load.change() for _ in range(20)]
    assert [each.service for each in changed] == ["web-0", "web-1"] * 10
    after = cluster.objects("EndpointSlice")
    for was, now in zip(before, after, strict=True):
        assert read_time(now["metadata"]["annotations"][CHANGE_TIME])
        old, new = ({each["addresses"][0] for each in found["endpoints"]} for found in (was, now))
        assert len(new) == 5
        assert not old & new
    assert [int(each["metadata"]["resourceVersion"]) for each in after] == [24, 25]
