"""The model of glibc, where no trace is: one family, rotate, errors of the search list."""

from __future__ import annotations

import pytest

from hsdns.resolver.glibc import AGAIN, NODATA, NONAME
from hsdns.resolver.model import Answer
from hsdns.wire.iana import Rcode, RRType
from tests.support.resolvers import lookups
from tests.support.resolvers.lookups import OK, look_up

KUBE = "nameserver 10.96.0.10\nsearch a.test b.test\noptions ndots:2\n"
SERVFAIL = Answer(Rcode.SERVFAIL)


def test_one_family() -> None:
    queries, result = look_up("glibc", KUBE, "web", {"web.b.test": OK}, RRType.A)
    assert queries == ["A web.a.test", "A web.b.test"]
    assert result.addresses == ("192.0.2.1",)


def test_no_aaaa_asks_nothing_for_ipv6_alone() -> None:
    queries, result = look_up("glibc", "options no-aaaa\n", "web", {}, RRType.AAAA)
    assert (queries, result.error) == ([], NODATA)


@pytest.mark.parametrize(
    ("answers", "error"),
    [
        ({}, NONAME),
        ({"web.a.test": lookups.NODATA}, NODATA),
        ({"web.b.test": SERVFAIL}, AGAIN),
        ({"web.a.test": lookups.NODATA, "web.b.test": SERVFAIL}, NODATA),
    ],
)
def test_error_of_the_search_list(answers: lookups.Answers, error: str) -> None:
    assert look_up("glibc", KUBE, "web", answers)[1].error == error


def test_the_error_of_the_name_as_it_is_counts() -> None:
    """If it was tried first."""
    answers = {"x.y.z": SERVFAIL, "x.y.z.a.test": lookups.NODATA}
    assert look_up("glibc", KUBE, "x.y.z", answers)[1].error == AGAIN


def test_rotate_begins_anywhere() -> None:
    text = "nameserver 1.1.1.1\nnameserver 2.2.2.2\noptions rotate\n"
    queries, _ = look_up("glibc", text, "web.", {"web": None})
    assert len(queries) == 8  # both servers, twice, for two types
