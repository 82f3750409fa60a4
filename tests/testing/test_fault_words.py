from typing import Any

import pytest

from hsdns.testing import ClusterError
from hsdns.testing.fault import Keywords, rule_words
from hsdns.testing.pod import PodIdentity

PODS = {"shop": PodIdentity("shop", "eu", "10.245.0.1")}


def words(rule: Any, **given: Any) -> str:
    return " ".join(rule_words(rule, Keywords(**given), PODS, 7))  # type: ignore[typeddict-item]  # any


WEB = "( name web.default.svc.cluster.local. or name web.svc.cluster.local. or name web.cluster.local. or name web. )"
READ: list[tuple[str, dict[str, Any], str]] = [
    ("drop", {}, "drop seed 7"),
    ("drop", {"qtype": "aaaa", "times": 1}, "drop type AAAA times 1 seed 7"),
    ("drop type AAAA times 1", {}, "drop type AAAA times 1 seed 7"),
    ("drop type A or type AAAA", {"times": 1}, "drop type A or type AAAA times 1 seed 7"),
    ("drop type A seed 3", {}, "drop type A seed 3"),
    ("delay normal 200ms 50ms", {"seed": 3, "named": "slow"}, "delay normal 200ms 50ms seed 3 named slow"),
    ("nxdomain", {"name": "web"}, f"nxdomain {WEB} seed 7"),
    ("nxdomain", {"name": "web.default.svc.cluster.local"}, "nxdomain name web.default.svc.cluster.local. seed 7"),
    ("nxdomain", {"name": "Example.org."}, "nxdomain name example.org. seed 7"),
    ("nxdomain", {"below": "shop.svc.cluster.local"}, "nxdomain name below shop.svc.cluster.local. seed 7"),
    ("empty", {"share": 0.25, "pod": "shop"}, "empty pod eu/shop share 0.25 seed 7"),
    ("empty", {"flow": "second 500ms", "transport": "udp"}, "empty transport udp flow second 500ms seed 7"),
    ("empty", {"after": 0.05, "before": "2s"}, "empty after 50ms before 2s seed 7"),
    ("empty", {"after": 2}, "empty after 2s seed 7"),
    ("empty", {"nth": 2, "client": "127.0.0.0/8"}, "empty client 127.0.0.0/8 nth 2 seed 7"),
]  # fmt: skip


@pytest.mark.parametrize(("rule", "given", "expected"), READ, ids=[row[2][:50] for row in READ])
def test_words(rule: str, given: dict[str, Any], expected: str) -> None:
    assert words(rule, **given) == expected


REFUSED: list[tuple[Any, dict[str, Any], str]] = [
    ("drp", {}, 'the fault "drp": "drp" is no action of a fault; did you mean "drop"?'),
    ("drop tpye A", {}, 'the fault "drop tpye A": "tpye" is no selector of a fault; did you mean "type"?'),
    ("drop", {"qtype": "AAAAA"}, 'the fault "drop type AAAAA seed 7": "AAAAA" is not a record type; did you mean "AAAA"?'),
    ("drop", {"share": 2}, 'the fault "drop share 2 seed 7": "2" is not a share such as 0.5, above 0, up to 1'),
    ("drop", {"times": 0}, 'the fault "drop times 0 seed 7": "0" is not a number from 1 to 1000000'),
    ("queue-full", {}, '"queue-full" is about a queue that the cluster of a test does not have; "drop share 0.5" loses queries, too'),
    ("refuse", {"pod": "shop"}, '"refuse" is not about queries, and a pod is known by its queries alone; leave "pod" out'),
    ("drop", {"pod": "shap"}, 'there is no pod "shap"; did you mean "shop"?'),
    (b"drop", {}, "a fault begins with what it does, such as \"drop\"; b'drop' is no text"),
    (
        "drop type A",
        {"below": "shop"},
        '"drop type A" has selectors, which the keyword "below" would follow; '
        'write "name below" in the text too, or all of it as keywords',
    ),
    (
        "drop times 1",
        {"qtype": "A"},
        '"drop times 1" has options, which the keyword "qtype" would follow; '
        'write "type" in the text too, or all of it as keywords',
    ),
]  # fmt: skip


@pytest.mark.parametrize(("rule", "given", "sentence"), REFUSED, ids=[row[2][:50] for row in REFUSED])  # fmt: skip
def test_refused(rule: Any, given: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ClusterError) as raised:
        words(rule, **given)
    assert str(raised.value) == sentence
