"""The objects behind a question, from a source that is read on demand, and what cannot be seen of them."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any, TypeVar

import pytest
from msgspec import structs

from hsdns.cluster.objects import EndpointSlice, Object
from hsdns.cluster.source import Fault, Lead, Reading
from hsdns.explanation.live import LiveObjects, Seen
from tests.support.cluster.objects import endpoint_slice, namespace, service
from tests.support.coroutines.eager import finish
from tests.support.servers.memory_server import KUBERNETES, MemoryServer

LEAD = Lead((b"shop",), ((b"shop", b"db"),))
PART = endpoint_slice("shop/db-1", "db", "10.0.0.1", "10.0.0.2 ready=false")
OBJECTS: list[Object] = [namespace("shop"), service("shop/db"), PART]


class Source:
    """A source that gives what it is told to."""

    def __init__(self, *objects: Object, faults: tuple[Fault, ...] = ()) -> None:
        self.reading = Reading(objects, faults)
        self.leads: list[Lead] = []

    def __str__(self) -> str:
        return "scripted"

    async def read(self, lead: Lead) -> Reading:
        self.leads.append(lead)
        return self.reading


def at(version: str, found: Object) -> Object:
    meta = structs.replace(found.metadata, resource_version=version)
    return structs.replace(found, metadata=meta)


T = TypeVar("T")


async def in_watch(coro: Coroutine[Any, Any, T]) -> T:
    return await coro


def see(source: object, lead: Lead = LEAD, objects: list[Object] = OBJECTS) -> Seen:
    server = MemoryServer(f"cluster.local in-addr.arpa {{\n{KUBERNETES}}}\n", None, objects)
    (block,) = server.plugins
    block.watch.source = source  # type: ignore[assignment]  # a part of one
    return finish(LiveObjects(block, in_watch).see(lead))


def names(seen: Seen) -> list[str]:
    return sorted(each.metadata.name for each in seen.objects)


@pytest.mark.parametrize(
    ("objects", "behind"),
    [
        ([at("2", each) for each in OBJECTS[1:]],
         ["Service shop/db is at version 2, and the server answers from 1",
          "EndpointSlice shop/db-1 is at version 2, and the server answers from 1"]),
        (OBJECTS[:2], ["the server still has EndpointSlice shop/db-1, which has been deleted"]),
        ([*OBJECTS, service("shop/new")], ["the server does not have Service shop/new yet"]),
        ([at("", each) for each in OBJECTS], []),
    ],
)  # fmt: skip
def test_what_the_server_has_in_another_version(objects: list[Object], behind: list[str]) -> None:
    assert list(see(Source(*objects)).behind) == behind


def test_an_object_without_a_version_has_that_of_the_server() -> None:
    seen = see(Source(*(at("", each) for each in OBJECTS)))
    assert [
        each.metadata.resource_version for each in seen.objects if isinstance(each, EndpointSlice)
    ] == ["1"]


def test_what_cannot_be_read_is_what_the_server_has() -> None:
    seen = see(Source(namespace("shop"), faults=(Fault("no", "Service"), Fault("no", "EndpointSlice"))))  # fmt: skip
    assert (names(seen), seen.remarks, seen.is_partial) == (["db", "db-1", "shop"], ("no", "no"), True)  # fmt: skip
    (part,) = [each for each in seen.objects if isinstance(each, EndpointSlice)]
    assert [each.addresses for each in part.endpoints or ()] == [["10.0.0.1"]]


def test_a_watch_that_does_not_answer() -> None:
    async def late(coro: Coroutine[Any, Any, T]) -> T:
        coro.close()
        raise TimeoutError

    server = MemoryServer(f"cluster.local {{\n{KUBERNETES}}}\n", None, OBJECTS)
    (block,) = server.plugins
    block.watch.source = Source()  # type: ignore[assignment]  # a part of one
    seen = finish(LiveObjects(block, late).see(LEAD))
    assert seen.remarks == ("the objects could not be read: the watch is busy",)
