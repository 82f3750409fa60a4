"""What the search list costs, told from queries."""

from __future__ import annotations

from random import Random

import pytest

from hsdns.doctor.search_cost import MOST_AT_ONCE, WINDOW, SearchCosts

ZONES = ["cluster.local.", "10.in-addr.arpa."]
NX, OK = True, False
STRIPE = [
    ("api.stripe.com.web.svc.cluster.local.", NX),
    ("api.stripe.com.svc.cluster.local.", NX),
    ("api.stripe.com.cluster.local.", NX),
]


def names_of(
    queries: list[tuple[str, bool]], step: float = 0.001
) -> dict[str, tuple[int, int, bool]]:
    """The names of a client that has sent these queries for A."""
    costs = SearchCosts(ZONES)
    for number, (name, is_denied) in enumerate(queries):
        costs.add(number * step, "10.0.0.1", name, "A", is_denied=is_denied)
    (client,) = costs.clients.values()
    assert client.queries == len(queries)
    return {name: (each.lookups, each.extra, each.searched) for name, each in client.names.items()}


@pytest.mark.parametrize(
    ("queries", "names"),
    [
        ([*STRIPE, ("api.stripe.com.", OK)], {"api.stripe.com": (1, 3, False)}),
        ([*STRIPE, ("API.Stripe.com.", OK)], {"api.stripe.com": (1, 3, False)}),
        ([*STRIPE, ("api.stripe.com.", NX)], {"api.stripe.com": (1, 3, False)}),
        ([*STRIPE, ("api.stripe.com.", OK)] * 2, {"api.stripe.com": (2, 6, False)}),
        ([*STRIPE, ("api.stripe.com.corp.example.", NX), ("api.stripe.com.", OK)], {"api.stripe.com": (1, 4, False)}),
        ([("db.shop.web.svc.cluster.local.", NX), ("db.shop.svc.cluster.local.", OK)], {"db.shop": (1, 1, True)}),
        ([("db.web.svc.cluster.local.", OK)], {}),
        ([("api.stripe.com.", OK)], {}),
        (STRIPE, {}),
        ([("gone.web.svc.cluster.local.", NX), ("other.example.", OK)], {}),
        ([("a.example.web.svc.cluster.local.", NX), *STRIPE, ("a.example.", OK), ("api.stripe.com.", OK)], {"a.example": (1, 1, False), "api.stripe.com": (1, 3, False)}),
    ],
)  # fmt: skip
def test_names(queries: list[tuple[str, bool]], names: dict[str, tuple[int, int, bool]]) -> None:
    assert names_of(queries) == names


def test_a_lookup_ends_after_a_while() -> None:
    assert names_of([STRIPE[0], ("api.stripe.com.", OK)], WINDOW) == {"api.stripe.com": (1, 1, False)}  # fmt: skip
    assert names_of([STRIPE[0], ("api.stripe.com.", OK)], WINDOW + 1) == {}


def test_clients_and_types_are_apart() -> None:
    costs = SearchCosts(ZONES)
    for client, rrtype in (("10.0.0.1", "A"), ("10.0.0.2", "A"), ("10.0.0.1", "AAAA")):
        costs.add(0.0, client, STRIPE[0][0], rrtype, is_denied=True)
    costs.add(0.1, "10.0.0.1", "api.stripe.com.", "A", is_denied=False)
    assert [(each.queries, [one.extra for one in each.names.values()]) for each in costs.clients.values()] == [(3, [1]), (1, [])]  # fmt: skip
    costs.add(0.1, "10.0.0.1", "api.stripe.com.", "AAAA", is_denied=False)
    assert costs.clients["10.0.0.1"].names["api.stripe.com"].extra == 2


def test_what_is_looked_up_is_bounded() -> None:
    costs, drawn = SearchCosts(ZONES), Random(1)
    for _ in range(MOST_AT_ONCE * 4):
        costs.add(0.0, "10.0.0.1", f"{drawn.random()}.svc.cluster.local.", "A", is_denied=True)
    assert len(costs._tries["10.0.0.1"]) <= MOST_AT_ONCE
    assert costs.clients["10.0.0.1"].names == {}
