from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from hsdns.apiserver.resource import PROTOBUF
from loadtest.apiserver import faults
from loadtest.apiserver.fake_cluster import FakeCluster
from loadtest.apiserver.watch_stream import INITIAL_EVENTS_END, Watch

SERVICES = "/api/v1/services"
STREAM = {
    "sendInitialEvents": "true",
    "resourceVersionMatch": "NotOlderThan",
    "allowWatchBookmarks": "true",
}


def service(name: str, position: str = "one", **labels: str) -> dict[str, Any]:
    metadata = {"name": name, "namespace": position, "labels": labels}
    return {"kind": "Service", "metadata": metadata}


def cluster_of(*names: str, **options: Any) -> FakeCluster:
    cluster = FakeCluster(**options)
    for name in names:
        cluster.apply(service(name))
    return cluster


def listed(cluster: FakeCluster, query: Mapping[str, str], path: str = SERVICES) -> Any:
    """The status, and the decoded body."""
    status, _, body = cluster.list_body(path, query)
    return status, json.loads(body)


def opened(cluster: FakeCluster, query: Mapping[str, str], path: str = SERVICES) -> Watch:
    status, _, watch = cluster.open_watch(path, query)
    assert status == 200
    assert isinstance(watch, Watch)
    return watch


def told(watch: Watch, count: int | None = None) -> list[str]:
    """What is due, a word for each line: `ADDED a 1`, `BOOKMARK 3`."""
    words = []
    for line in watch.take(count):
        assert line.endswith(b"\n")
        event = json.loads(line)
        found = event["object"]
        if event["type"] == "ERROR":
            words.append(f"ERROR {found['code']}")
            continue
        meta = found["metadata"]
        end = " end" if INITIAL_EVENTS_END in meta.get("annotations", {}) else ""
        words.append(
            " ".join(filter(None, [event["type"], meta.get("name"), meta["resourceVersion"]])) + end
        )
    return words


def test_pages_are_of_one_snapshot() -> None:
    cluster = cluster_of("a", "b", "c")
    _, page = listed(cluster, {"limit": "2"})
    cluster.delete(service("c"))
    cluster.apply(service("b", app="other"))
    cluster.apply(service("d"))
    _, rest = listed(cluster, {"limit": "2", "continue": page["metadata"]["continue"]})
    items = page["items"] + rest["items"]
    assert [(each["metadata"]["name"], each["metadata"]["resourceVersion"]) for each in items] == [
        ("a", "1"),
        ("b", "2"),
        ("c", "3"),
    ]
    assert page["metadata"]["resourceVersion"] == rest["metadata"]["resourceVersion"] == "3"
    assert page["metadata"]["remainingItemCount"] == 1
    assert "continue" not in rest["metadata"]


def test_a_page_of_a_forgotten_snapshot_is_refused_with_a_token_for_the_newest() -> None:
    cluster = cluster_of("a", "b", "c")
    _, page = listed(cluster, {"limit": "1"})
    cluster.delete(service("b"))
    cluster.compact()
    status, refusal = listed(cluster, {"limit": "1", "continue": page["metadata"]["continue"]})
    assert (status, refusal["reason"]) == (410, "Expired")
    _, rest = listed(cluster, {"continue": refusal["metadata"]["continue"]})
    assert [each["metadata"]["name"] for each in rest["items"]] == ["c"]


@pytest.mark.parametrize(
    ("query", "status", "names"),
    [
        pytest.param({}, 200, ["a", "b"], id="the newest"),
        pytest.param({"resourceVersion": "0", "limit": "1"}, 200, ["a", "b"], id="any, without pages"),
        pytest.param({"resourceVersion": "1"}, 200, ["a", "b"], id="not older"),
        pytest.param({"resourceVersion": "1", "resourceVersionMatch": "Exact"}, 200, ["a"], id="exact"),
        pytest.param({"resourceVersion": "9"}, 504, None, id="of the future"),
        pytest.param({"fieldSelector": "metadata.name=b"}, 200, ["b"], id="by name"),
        pytest.param({"fieldSelector": "???"}, 400, None, id="a selector that is none"),
    ],
)  # fmt: skip
def test_lists(query: dict[str, str], status: int, names: list[str] | None) -> None:
    found, body = listed(cluster_of("a", "b"), query)
    assert found == status
    if names is None:
        assert body["kind"] == "Status"
    else:
        assert [each["metadata"]["name"] for each in body["items"]] == names


def test_a_version_of_the_future_has_its_cause() -> None:
    _, status = listed(cluster_of("a"), {"resourceVersion": "9"})
    assert status["message"] == "Timeout: Too large resource version: 9, current: 1"
    assert [each["reason"] for each in status["details"]["causes"]] == ["ResourceVersionTooLarge"]


@pytest.mark.parametrize(
    ("query", "words"),
    [
        pytest.param(STREAM, ["ADDED a 1", "ADDED b 2", "BOOKMARK 2 end", "MODIFIED b 3"], id="streamed"),
        pytest.param({**STREAM, "resourceVersion": "1"}, ["ADDED a 1", "ADDED b 2", "BOOKMARK 2 end", "MODIFIED b 3"], id="streamed, not older"),
        pytest.param({**STREAM, "resourceVersion": "9"}, None, id="streamed, of the future"),
        pytest.param({**STREAM, "allowWatchBookmarks": "false"}, ["ADDED a 1", "ADDED b 2", "MODIFIED b 3"], id="streamed without bookmarks"),
        pytest.param({}, ["ADDED a 1", "ADDED b 2", "MODIFIED b 3"], id="without a version"),
        pytest.param({"resourceVersion": "0"}, ["ADDED a 1", "ADDED b 2", "MODIFIED b 3"], id="from any"),
        pytest.param({"resourceVersion": "1"}, ["ADDED b 2", "MODIFIED b 3"], id="from a version"),
        pytest.param({"resourceVersion": "2"}, ["MODIFIED b 3"], id="from the newest"),
        pytest.param({"resourceVersion": "9"}, [], id="from the future"),
    ],
)  # fmt: skip
def test_watches(query: dict[str, str], words: list[str] | None) -> None:
    cluster = cluster_of("a", "b")
    status, _, watch = cluster.open_watch(SERVICES, query)
    cluster.apply(service("b"))
    assert status == 200
    if words is None:
        assert isinstance(watch, bytes)
        assert json.loads(watch)["type"] == "ERROR"
    else:
        assert isinstance(watch, Watch)
        assert told(watch) == words


@pytest.mark.parametrize(
    ("streaming", "query", "reason"),
    [
        pytest.param(False, STREAM, "Invalid", id="streams are switched off"),
        pytest.param(True, {"sendInitialEvents": "true"}, "Invalid", id="no match is named"),
        pytest.param(True, {"resourceVersionMatch": "NotOlderThan"}, "Invalid", id="a match of nothing"),
    ],
)  # fmt: skip
def test_watches_that_are_refused(streaming: bool, query: dict[str, str], reason: str) -> None:
    status, _, body = cluster_of("a", streaming=streaming).open_watch(SERVICES, query)
    assert isinstance(body, bytes)
    assert (status, json.loads(body)["reason"]) == (422, reason)


def test_a_server_that_overlooks_streams_never_ends_the_state() -> None:
    assert told(opened(cluster_of("a", streaming="ignored"), STREAM)) == ["ADDED a 1"]


@pytest.mark.parametrize("as_event", [False, True], ids=["as status", "as event"])
def test_a_forgotten_version(as_event: bool) -> None:
    cluster = cluster_of("a", "b")
    cluster.expired_as_event = as_event
    cluster.compact()
    status, _, body = cluster.open_watch(SERVICES, {"resourceVersion": "1"})
    assert isinstance(body, bytes)
    found = json.loads(body)
    if as_event:
        assert (status, found["type"], found["object"]["code"]) == (200, "ERROR", 410)
    else:
        assert (status, found["code"]) == (410, 410)
    assert told(opened(cluster, {"resourceVersion": "2"})) == []


@pytest.mark.parametrize(
    ("act", "words", "ended"),
    [
        pytest.param(FakeCluster.bookmark, ["ADDED b 2", "BOOKMARK 2"], False, id="a bookmark"),
        pytest.param(FakeCluster.repeat, ["ADDED b 2", "ADDED b 2"], False, id="an event again"),
        pytest.param(FakeCluster.expire_watches, ["ADDED b 2", "ERROR 410"], True, id="history gone"),
        pytest.param(FakeCluster.end_watches, ["ADDED b 2"], True, id="its time is up"),
        pytest.param(FakeCluster.drop_watches, [], True, id="dropped"),
        pytest.param(FakeCluster.compact, ["ERROR 410"], True, id="fallen behind a compaction"),
    ],
)  # fmt: skip
def test_what_is_done_to_a_watch(
    act: Callable[[FakeCluster], None], words: list[str], ended: bool
) -> None:
    cluster = cluster_of("a")
    watch = opened(cluster, {"resourceVersion": "1", "allowWatchBookmarks": "true"})
    cluster.apply(service("b"))
    act(cluster)
    assert told(watch) == words
    assert watch.ended is ended
    assert cluster.watches == ([] if ended else [watch])


def test_lines_are_taken_as_many_as_asked_for() -> None:
    cluster = cluster_of("a", "b", "c")
    watch = opened(cluster, STREAM)
    assert told(watch, 2) == ["ADDED a 1", "ADDED b 2"]
    cluster.delete(service("c"))  # the state is as it was when the watch was opened
    cluster.send_line(b'{"type":"ERROR","object":{"code":500}}\n', "Service")
    assert told(watch, 2) == ["ADDED c 3", "BOOKMARK 3 end"]
    assert told(watch) == ["DELETED c 4", "ERROR 500"]


def test_a_watch_is_woken_by_its_own_kind() -> None:
    cluster = cluster_of()
    watch, woken = opened(cluster, {}), []
    watch.wake = lambda: woken.append(1)
    cluster.apply({"kind": "Namespace", "metadata": {"name": "one"}})
    assert not woken
    cluster.apply(service("a"))
    assert woken
    assert told(watch) == ["ADDED a 2"]


def test_history_is_bounded() -> None:
    cluster = cluster_of(*"abcdefghijk", history=4)
    cache = cluster.caches["Service"]
    assert 4 <= cache.end - cache.begin <= 8
    assert told(opened(cluster, {"resourceVersion": str(cache.oldest)}))[-1] == "ADDED k 11"
    status, _, _ = cluster.open_watch(SERVICES, {"resourceVersion": str(cache.oldest - 1)})
    assert status == 410


def test_a_backup_that_is_put_back() -> None:
    cluster = cluster_of("a", "b")
    cluster.delete(service("a"))
    watch = opened(cluster, {})
    cluster.rewind(1)
    assert watch.ended
    _, page = listed(cluster, {})
    assert page["metadata"]["resourceVersion"] == "1"
    assert [each["metadata"]["name"] for each in page["items"]] == ["a"]
    assert listed(cluster, {"resourceVersion": "3"})[0] == 504


def test_uids_are_kept_by_updates_and_new_after_a_deletion() -> None:
    cluster = FakeCluster()
    first = cluster.apply(service("a"))["metadata"]["uid"]
    assert cluster.apply(service("a"))["metadata"]["uid"] == first
    cluster.delete(service("a"))
    assert cluster.apply(service("a"))["metadata"]["uid"] != first


@pytest.mark.parametrize(
    ("path", "query", "status"),
    [
        pytest.param("/api/v1/services", {}, 403, id="all namespaces"),
        pytest.param("/api/v1/namespaces/one/services", {}, 200, id="a granted one"),
        pytest.param("/api/v1/namespaces/two/services", {}, 403, id="another one"),
        pytest.param("/apis/discovery.k8s.io/v1/endpointslices", {}, 200, id="another resource"),
        pytest.param("/api/v1/namespaces", {}, 403, id="namespaces"),
        pytest.param("/api/v1/namespaces", {"fieldSelector": "metadata.name=one"}, 200, id="a namespace by name"),
        pytest.param("/api/v1/nodes", {}, 404, id="a resource that is not there"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("watch", [False, True], ids=["list", "watch"])
def test_rights(path: str, query: dict[str, str], status: int, watch: bool) -> None:
    cluster = cluster_of("a")
    cluster.grant("services", "one")
    cluster.grant("namespaces", "one")
    assert cluster.answer(path, {**query, "watch": "1"} if watch else query).status == status


def test_a_verb_can_be_revoked_alone() -> None:
    cluster = cluster_of("a")
    cluster.revoke("services", "watch")
    assert cluster.answer(SERVICES, {}).status == 200
    refused = cluster.answer(SERVICES, {"watch": "1"})
    assert isinstance(refused.body, bytes)
    assert 'cannot watch resource "services" in API group "" at the cluster scope' in str(
        json.loads(refused.body)["message"]
    )
    cluster.grant("services")
    assert cluster.answer(SERVICES, {"watch": "1"}).status == 200


def test_tokens() -> None:
    cluster = cluster_of("a")
    assert cluster.answer(SERVICES, {}).status == 200
    cluster.token = "new"
    assert [cluster.answer(SERVICES, {}, token).status for token in (None, "old", "new")] == [
        401,
        401,
        200,
    ]


@pytest.mark.parametrize("fault", [faults.refused(), faults.unavailable(3), faults.html_page()])
@pytest.mark.parametrize("query", [{}, {"watch": "1"}])
def test_what_is_no_answer_of_the_server_is_not_written_as_protobuf(
    fault: faults.Fault, query: dict[str, str]
) -> None:
    cluster = FakeCluster(protobuf=True)
    cluster.fail(fault)
    found = cluster.answer(SERVICES, query, accept=PROTOBUF)
    assert (found.fault, found.body) == (fault, fault.body)
