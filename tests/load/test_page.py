import asyncio
from html.parser import HTMLParser
from pathlib import Path

import msgspec
import pytest

from hsdns.load.comparison import shown_together
from hsdns.load.page import comparison_page, page
from hsdns.load.report import Report
from tests.load.test_columns import lengthened
from tests.load.test_report import report, results
from tests.support.browser.chromium import PROGRAM, tab

WHOLE = report(results(lost=2, stale=True))
VOID = {"meta", "br", "line", "rect", "path", "circle", "link"}


def with_server(found: Report, **changes: object) -> Report:
    """A report with another server in place of its own."""
    (server,) = found.servers
    return msgspec.structs.replace(found, servers=[msgspec.structs.replace(server, **changes)])


class Reader(HTMLParser):
    """Notes texts, and elements that are not closed in order."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.texts: list[str] = []
        self.links: list[str] = []
        self.tags: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.links += [value or "" for name, value in attrs if name in ("src", "href")]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if data.strip():
            self.texts.append(data.strip())


def read(found: Report) -> Reader:
    return read_text(page(found))


def read_text(text: str) -> Reader:
    reader = Reader()
    reader.feed(text)
    assert reader.open == []
    return reader


def test_everything_is_in_the_page() -> None:
    reader = read(report(results(lost=2, stale=True), "stale>0,p50>1s"))
    assert reader.links == []
    assert "script" not in reader.tags
    assert reader.tags.count("desc") == 4  # one in each plot
    for heading in ("Answers", "Latency over time", "Latency against the slowest share", "Right or wrong", "Second by second", "Kinds of names", "Plan and machine"):  # fmt: skip
        assert heading in reader.texts
    for text in ("stale>0: 10 (5.000%)", "10 stale, of 200 answers that were judged.", "web.shop.svc.cluster.local.", "Table of 2 seconds"):  # fmt: skip
        assert text in reader.texts


@pytest.mark.parametrize(
    ("found", "texts"),
    [
        (report(results()), ["Right", "no answer of 200 was stale or wrong, under 2 changes."]),
        (report(results(late=5), "p50>1s"), ["Left out", "Unknown"]),
        (report(results(), ended="interrupted"), ["Not whole", "interrupted; the figures are of the 2 s until then."]),
        (report(results(), "stale>0", frozen=results(stale=True)), ["127.0.0.1 port 53: stale>0: 0", "frozen: stale>0: 10 (5.000%)", "Held", "Failed", "frozen: 10 stale, of 200 answers that were judged."]),
        (report(results(), "p50>1s"), ["Held"]),
        (report(results(), slack=None), ["Latency over time"]),
        (with_server(WHOLE, per_second=[]), ["Plan and machine"]),
    ],
)  # fmt: skip
def test_notes(found: Report, texts: list[str]) -> None:
    reader = read(found)
    assert [text for text in texts if text not in reader.texts] == []


def test_a_page_without_a_judge_has_no_verdicts() -> None:
    assert "Right or wrong" not in read(report(results(), slack=None)).texts


def test_names_are_only_text() -> None:
    plan = msgspec.structs.replace(WHOLE.plan, what="<script>alert(1)</script>")
    reader = read(msgspec.structs.replace(WHOLE, plan=plan))
    assert "script" not in reader.tags
    assert "<script>alert(1)</script>" in reader.texts


def test_a_long_run_is_still_a_small_page() -> None:
    found = lengthened(WHOLE.servers[0], 3600)
    spread = [
        msgspec.structs.replace(each, slots=[(slot, 1) for slot in range(each.second % 7, 20_000, 97)])
        for each in found.per_second
    ]  # fmt: skip
    server = msgspec.structs.replace(found, per_second=spread)
    text = page(msgspec.structs.replace(WHOLE, servers=[server]))
    assert len(text.encode()) < 2_000_000
    assert "2600 more seconds are in the JSON report." in text
    six = [msgspec.structs.replace(server, name=str(number)) for number in range(6)]
    assert len(page(msgspec.structs.replace(WHOLE, servers=six)).encode()) < 2_000_000


def test_servers_side_by_side() -> None:
    reader = read(report(results(), frozen=results(lost=2, stale=True)))
    assert "Load on 2 servers" in reader.texts
    assert reader.texts.count("frozen") > 6  # in each section, the table and the legends
    assert reader.tags.count("desc") == 2 * 4 + 2  # plots of each, and of both together
    for text in ("Side by side", "stale by at most", "2026-01-01T00:00:00.000Z, 100/s for 2 s over UDP to each of 127.0.0.1 port 53, frozen"):  # fmt: skip
        assert text in reader.texts


def test_several_runs() -> None:
    plan = msgspec.structs.replace(WHOLE.plan, seed=8)
    other = msgspec.structs.replace(report(results()), plan=plan)
    reader = read_text(comparison_page(shown_together([("a", WHOLE), ("b", other)])))
    assert reader.texts.count("generator") == 2  # two plans
    assert (
        "the runs differ in seed: a: 127.0.0.1 port 53: 7; b: 127.0.0.1 port 53: 8." in reader.texts
    )


@pytest.mark.night
@pytest.mark.sockets
@pytest.mark.skipif(PROGRAM is None, reason="chromium is not installed")
def test_in_a_browser(tmp_path: Path) -> None:
    """It loads nothing, and is no wider than the window, on a telephone too; plots are wider, and can be moved."""
    file = tmp_path / "report.html"
    file.write_text(page(report(results(), "stale>0", frozen=results(lost=2, stale=True))))

    async def test() -> None:
        async with tab() as opened:
            for width, dark in ((390, False), (900, True)):
                await opened.show(width, dark=dark)
                await opened.open(file.as_uri())
                assert await opened.value("document.documentElement.scrollWidth") == width
                wide = "[...document.querySelectorAll('figure')].map(each => each.scrollWidth > each.clientWidth)"  # fmt: skip
                assert await opened.value(wide) == [width == 390] * 10
            assert opened.complaints == []
            assert {url.partition(":")[0] for url in opened.asked} == {"file"}

    asyncio.run(test())
