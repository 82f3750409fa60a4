"""The model of Go's resolver, where no trace is."""

from __future__ import annotations

from hsdns.resolver.go import MISBEHAVING, NO_HOST
from hsdns.resolver.model import Answer
from hsdns.wire.iana import Rcode, RRType
from tests.support.resolvers.lookups import OK, look_up

KUBE = "nameserver 10.96.0.10\nsearch a.test b.test\noptions ndots:2\n"


def test_one_family() -> None:
    queries, result = look_up("go", KUBE, "web", {"web.b.test": OK}, RRType.A)
    assert queries == ["A web.a.test", "A web.b.test"]
    assert result.addresses == ("192.0.2.1",)


def test_a_failure_of_the_name_as_it_is_counts_for_more_than_nxdomain() -> None:
    assert look_up("go", KUBE, "web", {})[1].error == NO_HOST
    assert look_up("go", KUBE, "web", {"web": Answer(Rcode.REFUSED)})[1].error == MISBEHAVING


def test_rotate_goes_on_with_the_next_lookup() -> None:
    """Each type of each name begins at the next server."""
    text = "nameserver 1.1.1.1\nnameserver 2.2.2.2\nsearch a.test\noptions rotate\n"
    queries, result = look_up("go", text, "web", {"web.a.test": OK})
    assert sorted(queries) == ["A web.a.test", "AAAA web.a.test"]
    assert result.error == ""
