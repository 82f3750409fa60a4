"""The page of an audit: what it says, and that what comes from elsewhere is text."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from msgspec import structs

from hsdns.audit.page import page
from hsdns.audit.run import LOST, Result
from hsdns.load.verify.judge import STALE
from tests.audit.test_report import FINE, Given, report
from tests.load.output.test_golden import data
from tests.load.output.test_page import HOSTILE, SHOWN
from tests.support.browser.chromium import PROGRAM, tab

LAGGING = Given([Result(STALE, 3.0, 0.001, 0, 5), Result(LOST), FINE._replace(latency=0.5)])


def test_all_is_right() -> None:
    found = data(page([report(Given([FINE] * 3))]))
    assert found["title"] == "Audit of test"
    assert found["notes"] == [["good", "Right", "every answer is what the cluster's objects say"]]
    (servers,) = found["sections"]
    assert [kind for kind, *_ in servers[1:]] == ["bars", "table"]


def test_a_server_that_lags() -> None:
    found = data(page([report(Given([FINE] * 3), LAGGING)]))
    assert found["notes"] == [["bad", "10.96.0.11", "3 findings, behind by 3.0 s at most"]]
    (_, (_, bars), (_, _, head, rows)), (name, (_, findings)) = found["sections"]
    # A slow answer is right, too, and only once in the bar.
    assert bars[1] == [
        "10.96.0.11",
        [["stale", "stale", 1], ["lost", "lost", 1], ["nxdomain", "slow", 1]],
    ]
    assert dict(zip(head, rows[1], strict=True)) == {
        **{"server": "10.96.0.11", "right": 1, "stale": 1, "lost": 1, "slow": 1},
        **{"only here": 2, "worst age": "3.0 s", "p50": "500 ms", "p99": "lost", "max": "lost"},
    }
    assert name == "10.96.0.11"
    assert findings == [
        ["bad", "a.shop.svc.cluster.local. A", "stale by 3.0 s; lacks A 10.0.0.1, A 10.0.0.2"],
        ["bad", "b.shop.svc.cluster.local. A", "lost"],
        ["warn", "c.shop.svc.cluster.local. A", "slow: 500 ms"],
    ]


def test_several_clusters() -> None:
    first, second = report(Given([FINE] * 3)), report(Given([FINE, Result(LOST), FINE]))
    found = data(page([first, structs.replace(second, cluster="east")]))
    assert found["title"] == "Audit of 2 clusters"
    assert [title for title, *_ in found["sections"]] == ["Servers", "east: 10.96.0.10"]


@pytest.mark.slow
@pytest.mark.sockets
@pytest.mark.skipif(PROGRAM is None, reason="chromium is not installed")
def test_in_a_browser(tmp_path: Path) -> None:
    file = tmp_path / "audit.html"
    found = structs.replace(report(Given([FINE] * 3), LAGGING), cluster=HOSTILE)
    file.write_text(page([found, report(Given([FINE] * 3))]), encoding="utf-8")

    async def test() -> None:
        async with tab() as opened:
            await opened.show(390)
            await opened.open(file.as_uri())
            shown = await opened.value(SHOWN)
            assert (
                "a.shop.svc.cluster.local. Astale by 3.0 s; lacks A 10.0.0.1, A 10.0.0.2" in shown
            )
            assert [each for each in shown if "</script><script>alert(1)</script>" in each]
            bars = "[...document.querySelectorAll('.bar')].map(each => each.ariaLabel)"
            assert await opened.value(bars) == ["3 right", "1 stale, 1 lost, 1 slow", "3 right"]
            assert await opened.value("document.documentElement.scrollWidth") == 390
            assert opened.complaints == []

    asyncio.run(test())
