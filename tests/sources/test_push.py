import asyncio

from hsdns.cluster.objects import Event, Synced
from hsdns.cluster.reading import Lead
from hsdns.sources.push import PushSource
from tests.support.cluster.objects import deletes, service, upserts


def test_the_source_finds_what_is_there_now() -> None:
    source = PushSource(upserts(service("shop/web", "10.96.0.1"), service("shop/db", "10.96.0.2")))
    source.load(lambda events: None, lambda level, message: None)
    lead = Lead(services=((b"shop", b"web"), (b"shop", b"db")))
    source.push([*upserts(service("shop/web", "10.96.0.3")), *deletes(service("shop/db"))])
    (found,) = asyncio.run(source.read(lead)).objects
    assert found == service("shop/web", "10.96.0.3")


def test_a_server_that_starts_again_gets_what_is_there_now() -> None:
    source = PushSource(upserts(service("shop/web", "10.96.0.1")))
    delivered: list[Event] = []
    for _ in range(2):
        source.load(delivered.extend, lambda level, message: None)
    source.push(more := upserts(service("shop/db", "10.96.0.2")))
    web = upserts(service("shop/web", "10.96.0.1"))
    assert delivered == [*web, Synced(), *web, Synced(), *more]
