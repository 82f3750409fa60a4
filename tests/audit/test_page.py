"""The page of an audit: what it says, that it needs nothing else, and that what comes from elsewhere is text."""

from __future__ import annotations

import re

from msgspec import structs

from hsdns.audit.answers import LOST, Result
from hsdns.audit.page import page
from hsdns.load.verify.judge import STALE
from tests.audit.test_report import FINE, Given, report


def text_of(found: str) -> str:
    return " ".join(re.sub(r"<style>.*?</style>|<[^>]+>", " ", found, flags=re.DOTALL).split())


def test_all_is_right() -> None:
    found = page([report(Given([FINE] * 3))])
    assert "Audit of test" in text_of(found)
    assert "Right every answer is what the cluster's objects say" in text_of(found).replace(
        "&#x27;", "'"
    )
    assert not re.search(r"<script|https?://(?!www\.w3\.org)", found)


def test_a_server_that_lags() -> None:
    lagging = Given([Result(STALE, 3.0, 0.001, 0, 5), Result(LOST), FINE._replace(latency=0.5)])
    found = page([report(Given([FINE] * 3), lagging)])
    told = text_of(found)
    assert "10.96.0.11 3 findings, behind by 3.0 s at most" in told
    assert "a.shop.svc.cluster.local. A stale by 3.0 s; lacks A 10.0.0.1, A 10.0.0.2" in told
    assert "b.shop.svc.cluster.local. A lost" in told
    assert "c.shop.svc.cluster.local. A slow: 500 ms" in told
    # Bars have no least width, so that all of one is seen on a telephone.
    assert found.count('style="min-width:0;height:16px"') == 2
    # Each bar with its table: three verdicts of the second server, one of the first.
    assert found.count('<rect class="verdict stale"') == 1
    assert 'aria-label="Verdicts"' in found


def test_several_clusters() -> None:
    first = report(Given([FINE] * 3))
    second = structs.replace(report(Given([FINE, Result(LOST), FINE])), cluster="east <b>")
    found = page([first, second])
    assert "Audit of 2 clusters" in text_of(found)
    assert "east &lt;b&gt;: 10.96.0.10" in found
    assert "<b>" not in found
