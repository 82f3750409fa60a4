"""What a reader sees of changes, and of reloads; test_changes.py follows a whole server."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from hsdns.cluster.objects import Object
from hsdns.plugins.kubernetes import Kubernetes
from hsdns.server.control.changes import ChangeFollower, to_words
from hsdns.server.runtime import Turn
from tests.server.control.top.looked import Looked
from tests.support.cluster.objects import namespace, service, upserts

OBJECTS: list[Object] = [namespace("shop"), service("shop/web", "10.96.0.1")]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("+ 10.96.0.1 web.shop.svc.cluster.local", ("added", "web.shop.svc.cluster.local.", "10.96.0.1")),
        ("- port 80 _http._tcp.web.cluster.local", ("removed", "_http._tcp.web.cluster.local.", "port 80")),
        ("+ CNAME db.example.org mail.cluster.local", ("added", "mail.cluster.local.", "CNAME db.example.org")),
    ],
)  # fmt: skip
def test_words(text: str, words: tuple[str, str, str]) -> None:
    assert to_words(text) == words


async def look(follower: ChangeFollower) -> list[str]:
    return [text async for piece in follower.look(Turn(lambda: 0.0)) for _, text in piece]


def finished(follower: ChangeFollower) -> list[str]:
    coroutine = look(follower)
    try:
        coroutine.send(None)
    except StopIteration as end:
        found: list[str] = end.value
        return found
    raise AssertionError("it waits")


def test_a_reload_goes_on_with_the_state_before() -> None:
    looked = Looked(objects=OBJECTS)
    instance: Any = SimpleNamespace(configuration=looked.server.configuration)
    looked.door.instance = lambda: instance
    follower = ChangeFollower(looked.door)
    assert follower.follow()
    assert not follower.follow()
    assert follower.zones == ["cluster.local.", "in-addr.arpa."]
    assert finished(follower) == []
    (block,) = follower.blocks
    assert isinstance(block, Kubernetes)
    block.store.apply(upserts(service("shop/web", "10.96.0.2", version="2")))
    instance = SimpleNamespace(configuration=looked.server.configuration)
    assert follower.follow()
    assert finished(follower) == [
        "- 10.96.0.1 web.shop.svc.cluster.local",
        "+ 10.96.0.2 web.shop.svc.cluster.local",
    ]
    assert finished(follower) == []
