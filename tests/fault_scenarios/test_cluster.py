"""Objects of a scenario's cluster, and the events that their changes make."""

from __future__ import annotations

import asyncio

import pytest

from hsdns.cluster.objects import Deleted, Event, Service, Synced, Upserted
from hsdns.cluster.source import Lead
from hsdns.fault_scenarios.memory_server import Objects
from hsdns.fault_scenarios.scenario import ScenarioError
from hsdns.sources.push import PushSource

WEB = """\
kind: Service
apiVersion: v1
metadata: {name: web, namespace: shop}
spec: {clusterIP: %s, ports: [{port: 80}]}
"""


def changes(objects: Objects, manifests: str, *delete: str) -> list[tuple[str, str]]:
    """The events about Services."""
    return [
        (type(each).__name__, each.object.metadata.name)
        for each in objects.change(manifests, delete)
        if isinstance(each, Upserted | Deleted) and isinstance(each.object, Service)
    ]


def test_each_change_is_an_event_and_what_is_the_same_is_none() -> None:
    objects = Objects()
    assert changes(objects, WEB % "10.96.0.1") == [("Upserted", "web")]
    assert changes(objects, WEB % "10.96.0.1") == []
    assert changes(objects, WEB % "10.96.0.2") == [("Upserted", "web")]
    assert changes(objects, "", "Service shop/web") == [("Deleted", "web")]


@pytest.mark.parametrize(
    ("manifests", "delete", "error"),
    [
        ("kind: Service", (), "manifests:1: "),
        ("", ("Service shop/api",), "there is no Service shop/api that could be deleted"),
    ],
)
def test_what_is_wrong(manifests: str, delete: tuple[str, ...], error: str) -> None:
    with pytest.raises(ScenarioError) as raised:
        Objects().change(manifests, delete)
    assert str(raised.value).startswith(error)


def test_the_source_begins_empty_and_delivers_what_it_is_handed() -> None:
    source = PushSource()
    delivered: list[Event] = []
    source.load(delivered.extend, lambda level, message: None)
    assert delivered == [Synced()]
    events = Objects().change(WEB % "10.96.0.1")
    source.push(events)
    assert delivered[1:] == events
    found = asyncio.run(source.read(Lead(services=((b"shop", b"web"),))))
    assert [type(each) for each in found.objects][:1] == [Service]
    assert (source.check(), source.silence(9.0)) == ([], 0.0)
