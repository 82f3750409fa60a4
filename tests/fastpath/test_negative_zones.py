"""Several negative zones in one table."""

from types import ModuleType

import pytest

from hsdns.wire.message import nxdomain
from tests.fastpath.test_negative_zone import NX, table_with_zone
from tests.fastpath.twins import TableUnderTest, ask, soa, to_wire


def test_the_longest_zone_decides(twin: ModuleType) -> None:
    under_test = table_with_zone(twin)
    # Without template: names below it are left to the chain, whatever the larger zone says.
    assert under_test.add_negative_zone("sub.cluster.local.") == 1
    assert under_test.lookup(ask("x.sub.cluster.local.")) is None
    assert under_test.lookup(ask("sub.cluster.local.")) is not None
    assert under_test.lookup(ask("x.cluster.local.")) is not None


def test_no_such_negative_zone(twin: ModuleType) -> None:
    under_test, query = TableUnderTest(twin), ask(NX)
    reply = to_wire(query, nxdomain(soa()))
    for number in (0, 1):
        with pytest.raises(IndexError):
            under_test.table.set_template(number, query, reply, 200)
        with pytest.raises(IndexError):
            under_test.set_pod_form(number=number)
    with pytest.raises(ValueError, match="-1"):
        under_test.add_negative_zone(mark_ttl=30)
    under_test.add_negative_zone()
    with pytest.raises(ValueError, match="-1"):
        under_test.set_pod_form(mark_ttl=30)
