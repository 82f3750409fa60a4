import json
from typing import Any

from hsdns.cluster.objects import Namespace, ObjectMeta, Service, ServiceSpec
from hsdns.load.cluster import history as api_history
from hsdns.load.cluster.history import ApiHistory


def service(name: str, address: str = "10.96.0.1") -> Service:
    return Service(ObjectMeta(name=name, namespace="shop"), ServiceSpec(cluster_ip=address))


def facts(event: dict[str, Any]) -> tuple[str, str, str]:
    meta = event["object"]["metadata"]
    return event["type"], meta.get("name", ""), meta["resourceVersion"]


def test_lists() -> None:
    history = ApiHistory()
    history.put(Namespace(ObjectMeta(name="shop")))
    history.put(service("web"))
    history.put(service("web", "10.96.0.2"))
    found = json.loads(history.listed(Service))
    assert (found["kind"], found["apiVersion"]) == ("ServiceList", "v1")
    assert found["metadata"] == {"resourceVersion": "3"}
    (web,) = found["items"]
    assert (web["kind"], web["apiVersion"], web["spec"]["clusterIP"]) == (
        "Service",
        "v1",
        "10.96.0.2",
    )
    assert (web["metadata"]["name"], web["metadata"]["namespace"], web["metadata"]["resourceVersion"]) == ("web", "shop", "3")  # fmt: skip


def test_what_is_removed() -> None:
    history = ApiHistory()
    history.put(service("a"))
    history.put(service("b"))
    history.remove(service("a"))
    assert [each["metadata"]["name"] for each in json.loads(history.listed(Service))["items"]] == ["b"]  # fmt: skip
    lines = history.since(Service, 2)
    assert lines is not None
    assert [facts(json.loads(line)) for line in lines] == [("DELETED", "a", "3")]
    history.put(service("a"))
    lines = history.since(Service, 3)
    assert lines is not None
    assert [facts(json.loads(line)) for line in lines] == [("ADDED", "a", "4")]


def test_changes_since_a_version() -> None:
    history = ApiHistory()
    history.put(service("a"))
    history.put(Namespace(ObjectMeta(name="shop")))
    history.put(service("a"))
    history.put(service("b"))
    lines = history.since(Service, 1)
    assert lines is not None
    assert [facts(json.loads(line)) for line in lines] == [
        ("MODIFIED", "a", "3"),
        ("ADDED", "b", "4"),
    ]
    assert history.since(Service, 4) == []


def test_what_is_not_remembered() -> None:
    history = ApiHistory(2)
    for _ in range(4):
        history.put(service("a"))
    assert history.since(Service, 1) is None
    assert len(history.since(Service, 2) or []) == 2


def test_a_streaming_list() -> None:
    history = ApiHistory()
    history.put(service("a"))
    lines = [json.loads(line) for line in history.initial(Service)]
    assert [facts(line) for line in lines] == [("ADDED", "a", "1"), ("BOOKMARK", "", "1")]
    assert lines[-1]["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}


def test_what_is_put_in_stays_as_it_is() -> None:
    web = service("web")
    ApiHistory().put(web)
    assert web.metadata.resource_version == ""
    assert set(api_history.PATHS) == {
        "/api/v1/namespaces", "/api/v1/services", "/api/v1/pods", "/apis/discovery.k8s.io/v1/endpointslices",
    }  # fmt: skip
