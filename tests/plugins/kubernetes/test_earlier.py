"""Comparisons of an answer from an earlier state with that from the newest one."""

from __future__ import annotations

import pytest

from hsdns.chain import Earlier
from hsdns.cluster.replaced import Need
from hsdns.wire.message import Reply
from hsdns.wire.name import Name
from tests.support.cluster.kubernetes_plugin import Cluster
from tests.support.cluster.objects import service, upserts
from tests.support.coroutines.eager import finish
from tests.support.plugins.requests import make_request, next_with, reply

WEB = "web.testns.svc.cluster.local."
FIRST, SECOND = f"{WEB} 5 IN A 10.0.0.1", f"{WEB} 5 IN A 10.0.0.2"


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
    earlier = Earlier(0.0)
    earlier.compare(found, reply([FIRST]))
    assert earlier.differs == differs


def test_only_a_state_that_has_changed_is_another_one() -> None:
    cluster = Cluster()
    plugin = cluster.plugin
    plugin.store.replaced.keep(cluster, [Need(1.0)])
    assert not plugin.has_changed_since(None)
    assert not plugin.has_changed_since(Earlier(1.0))
    cluster.runtime.time = 2.0
    cluster.apply(*upserts(service("testns/web")))
    assert plugin.has_changed_since(Earlier(1.0))
    assert not plugin.has_changed_since(Earlier(2.0))


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
