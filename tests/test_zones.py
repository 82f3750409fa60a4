from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hsdns.wire.iana import RRType
from hsdns.wire.name import Name
from hsdns.zones import Zones
from tests import strategies

CLUSTER = (".", "org.", "example.org.", "a.example.org.", "Cluster.Local.", "10.in-addr.arpa.")


def zones(*texts: str) -> Zones[str]:
    return Zones({Name.from_text(text): text for text in texts})


@pytest.mark.parametrize(
    ("served", "qname", "qtype", "expected"),
    [
        (CLUSTER, "www.example.org.", RRType.A, "example.org."),
        (CLUSTER, "x.a.example.org.", RRType.A, "a.example.org."),
        (CLUSTER, "a.example.org.", RRType.A, "a.example.org."),
        (CLUSTER, "badexample.org.", RRType.A, "org."),
        (CLUSTER, r"x\.example.org.", RRType.A, "org."),
        (CLUSTER, "WWW.EXAMPLE.ORG.", RRType.A, "example.org."),
        (CLUSTER, "db.default.svc.cluster.local.", RRType.A, "Cluster.Local."),
        (CLUSTER, "1.0.0.10.in-addr.arpa.", RRType.PTR, "10.in-addr.arpa."),
        (CLUSTER, "com.", RRType.A, "."),
        (CLUSTER, ".", RRType.NS, "."),
        (CLUSTER, "a.example.org.", RRType.DS, "org."),
        (CLUSTER, "x.a.example.org.", RRType.DS, "org."),
        (CLUSTER, "cluster.local.", RRType.DS, "Cluster.Local."),
        (CLUSTER, "com.", RRType.DS, "."),
        (("example.org.",), "org.", RRType.A, None),
        (("example.org.",), ".", RRType.A, None),
        (("example.org.",), "example.org.", RRType.DS, "example.org."),
        ((), "example.org.", RRType.A, None),
        ((".",), "anything.example.org.", RRType.DS, "."),
    ],
    ids=[
        "below", "longest", "apex", "by-labels", "dot-inside", "other-case", "zone-in-capitals", "reverse", "root-block",
        "root-name", "ds-parent", "ds-shortest", "ds-not-the-root-block", "ds-only-root", "above", "root-of-none",
        "ds-alone", "no-zones", "only-root",
    ],
)  # fmt: skip
def test_match(served: tuple[str, ...], qname: str, qtype: int, expected: str | None) -> None:
    found = zones(*served).match(Name.from_text(qname), qtype)
    assert found == (None if expected is None else (Name.from_text(expected), expected))


@given(
    served=st.lists(strategies.related_names(), max_size=6),
    qname=strategies.related_names(),
    ds=st.booleans(),
)
def test_match_is_the_longest_or_for_ds_the_shortest(
    served: list[Name], qname: Name, ds: bool
) -> None:
    found = Zones(dict.fromkeys(served)).match(qname, RRType.DS if ds else RRType.A)
    holding = sorted(
        {zone.labels for zone in served if qname.is_at_or_below(zone)}, key=len, reverse=True
    )
    if not holding:
        assert found is None
        return
    assert found is not None
    # The root block is a last resort also for DS.
    cuts = [labels for labels in holding if labels] or holding
    assert found[0].labels == (cuts[-1] if ds else holding[0])


def test_matches_are_all_zones_of_a_name() -> None:
    zones = Zones({Name.from_text(text): text for text in (".", "org.", "a.example.org.")})
    qname = Name.from_text("b.A.Example.org.")
    assert [text for _, text in zones.matches(qname)] == ["a.example.org.", "org.", "."]
