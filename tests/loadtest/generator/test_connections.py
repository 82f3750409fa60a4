from __future__ import annotations

from loadtest.generator.connections import COREFILE, FASTEST, OURS, RATES, _order, _place
from loadtest.generator.measure import DNSPERF


def test_generators_take_turns_at_each_rate() -> None:
    first, second = _order("tcp", 0), _order("tcp", 1)
    assert first[-1] == second[-1] == (FASTEST, DNSPERF)
    assert first[:-1] == second[-2::-1]
    assert set(first[:-1]) == {(rate, each) for rate in RATES["tcp"] for each in (OURS, DNSPERF)}


def test_the_order_of_the_table() -> None:
    keys = [("dot", 3_000, OURS), ("tcp", FASTEST, DNSPERF), ("tcp", 40_000, OURS)]
    assert sorted(((key, []) for key in keys), key=_place) == [
        (("tcp", 40_000, OURS), []),
        (("tcp", FASTEST, DNSPERF), []),
        (("dot", 3_000, OURS), []),
    ]


def test_the_block_of_a_transport() -> None:
    text = COREFILE.format(scheme="tls://", port=1853, tls="tls a b", source="synthetic services=1")
    assert text.startswith("tls://cluster.local:1853 {\n    bind 127.0.0.1\n    tls a b\n")
