"""Comparisons of an answer from an earlier state with that from the newest one."""

from __future__ import annotations

import pytest

from hsdns.chain import Earlier
from hsdns.cluster.replaced import Need
from hsdns.plugins.kubernetes.earlier import compare, each_once, is_other
from hsdns.wire.message import Reply
from hsdns.wire.name import Name
from tests.support.cluster.kubernetes_plugin import Cluster
from tests.support.cluster.objects import service, upserts
from tests.support.coroutines.eager import finish
from tests.support.plugins.requests import make_request, next_with, reply

ZONE = Name.from_text("cluster.local")
WEB = "web.testns.svc.cluster.local."
FIRST, SECOND = f"{WEB} 5 IN A 10.0.0.1", f"{WEB} 5 IN A 10.0.0.2"


async def _no_lookup(qname: Name, qtype: int) -> Reply:
    raise AssertionError("nothing is outside")


@pytest.mark.parametrize(
    ("found", "differs"),
    [
        (reply([FIRST]), False),
        (reply([SECOND]), True),
        (reply([FIRST, SECOND]), True),
        (reply([FIRST], additional=[SECOND]), True),
        (reply([FIRST]).replace(tc=True), True),
        (reply([FIRST], authority=["cluster.local. 5 IN NS ns.dns.cluster.local."]), False),
        (reply([FIRST]).replace(rcode=3), True),
        (None, True),
    ],
)
def test_what_is_another_answer(found: Reply | None, differs: bool) -> None:
    cluster, earlier = Cluster(service("testns/web", "10.0.0.1")), Earlier(0.0)
    query = make_request(WEB).query
    finish(compare(earlier, cluster.plugin.answers, query, ZONE, _no_lookup, found))
    assert earlier.differs == differs


@pytest.mark.parametrize(("found", "differs"), [(None, False), (reply([FIRST]), True)])
def test_a_name_that_does_not_exist_now(found: Reply | None, differs: bool) -> None:
    cluster, earlier = Cluster(), Earlier(0.0)
    query = make_request(WEB).query
    finish(compare(earlier, cluster.plugin.answers, query, ZONE, _no_lookup, found))
    assert earlier.differs == differs


def test_each_once() -> None:
    asked = []

    async def resolve(qname: Name, qtype: int) -> Reply:
        asked.append((qname.to_text(), qtype))
        return reply([FIRST])

    async def test() -> None:
        once = each_once(resolve)
        for qtype in (1, 1, 28, 1):
            await once(Name.from_text(WEB), qtype)

    finish(test())
    assert asked == [(WEB, 1), (WEB, 28)]


def test_only_a_state_that_has_changed_is_another_one() -> None:
    cluster = Cluster()
    store = cluster.plugin.store
    store.replaced.keep(cluster, [Need(1.0)])
    assert not is_other(store, None)
    assert not is_other(store, Earlier(1.0))
    cluster.runtime.time = 2.0
    cluster.apply(*upserts(service("testns/web")))
    assert is_other(store, Earlier(1.0))
    assert not is_other(store, Earlier(2.0))


def test_names_that_fall_through() -> None:
    """A name that the earlier state does not have falls through, and is a difference."""
    cluster = Cluster(fallthrough=(Name.from_text("."),))
    plugin, earlier = cluster.plugin, Earlier(1.0)
    plugin.store.replaced.keep(cluster, [Need(1.0)])
    cluster.runtime.time = 2.0
    cluster.apply(*upserts(service("testns/web", "10.0.0.1")))
    request = make_request(WEB).replace(earlier=earlier)
    found = finish(plugin.handle(request, next_with(reply([SECOND]))))
    assert (found.answer, earlier.differs) == (reply([SECOND]).answer, True)
    assert found.still_holds is not None
    assert not found.still_holds()
