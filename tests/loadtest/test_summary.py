import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from loadtest import summary
from loadtest.process import BenchmarkError
from loadtest.summary import BEGIN, END, PAGE, PLOT, figures, refreshed, sentences, svg

SVG = "{http://www.w3.org/2000/svg}"
RENEW = "run: make pictures"


def table_of(page: str, heading: str) -> dict[str, dict[str, str]]:
    """The first table below a heading: first cell of a row -> heading of a column -> cell."""
    lines = page.partition(f"\n{heading}\n")[2].splitlines()
    start = next(at for at, line in enumerate(lines) if line.startswith("|"))
    rows = []
    for line in lines[start:]:
        if not line.startswith("|"):
            break
        rows.append([cell.strip() for cell in line[1:-1].split("|")])
    # The first of two columns of the same name is the one that counts.
    return {row[0]: dict(reversed([*zip(rows[0], row, strict=True)])) for row in rows[2:]}


def made_page(*servers: tuple[str, float], watch: str = "0.5") -> str:
    rows = "".join(f"| {name} | {value} | 1.00 |\n" for name, value in servers)
    watched = "".join(
        f"| {part} | {what} | {watch} | 7 | 1.00 |\n"
        for part, what in (
            ("write to answer, 10,000 Services", "median, ms"),
            ("write to answer, 10,000 Services", "p99, ms"),
            ("10,000 Services", "start to ready, s"),
            ("10,000 Services", "resident 10 s after ready, MB"),
        )
    )
    return (
        f"# A\n\n{BEGIN}\nold\n{END}\n\n### hot\n\n| server | drain µs | least |\n| --- | ---: | ---: |\n"
        f"| C echo | 99.00 | 1.00 |\n\n### cluster\n\n| server | drain µs | least |\n| --- | ---: | ---: |\n{rows}"
        f"\n### next\n\n| part | figure | hsdns | CoreDNS | ratio |\n| --- | --- | ---: | ---: | ---: |\n{watched}"
    )


SERVERS = (
    ("C echo", 2.0),
    ("hsdns, compiled", 2.5),
    ("hsdns, pure Python", 6.0),
    ("CoreDNS", 400.25),
)
MADE = made_page(*SERVERS)


def test_the_page_begins_with_what_its_tables_say() -> None:
    page = PAGE.read_text()
    assert refreshed(page) == page, RENEW
    assert PAGE.with_name(PLOT).read_text() == svg(figures(page)), RENEW
    assert re.match(rf"# Performance\n\n{BEGIN}\n\n!\[[^]]+\]\({PLOT}\)\n\n", page)


def test_the_plot_of_the_page_has_every_server_and_is_true_to_scale() -> None:
    wanted = {
        server: float(row["drain µs"])
        for server, row in table_of(PAGE.read_text(), "### cluster").items()
        if row["drain µs"]
    }
    assert len(wanted) >= 4
    root = ElementTree.fromstring(PAGE.with_name(PLOT).read_text())
    bars = {
        bar.findtext(f"{SVG}title"): bar.attrib
        for bar in root.iter(f"{SVG}rect")
        if bar.get("class", "").startswith("bar")
    }
    assert bars.keys() == wanted.keys()
    ticks = {
        float(tick.text or ""): float(tick.attrib["x"])
        for tick in root.iter(f"{SVG}text")
        if tick.get("class") == "tick"
    }
    zero = ticks.pop(0)
    per_microsecond = (ticks[max(ticks)] - zero) / max(ticks)
    for value, x in ticks.items():
        assert x - zero == pytest.approx(value * per_microsecond, abs=0.02)
    for server, value in wanted.items():
        assert float(bars[server]["x"]) == zero
        assert float(bars[server]["width"]) == pytest.approx(value * per_microsecond, abs=0.02)
    written = [float(text.text or "") for text in root.iter(f"{SVG}text") if _is_figure(text)]
    assert written == sorted(wanted.values())


def _is_figure(text: ElementTree.Element) -> bool:
    return text.get("class") != "tick" and re.fullmatch(r"[\d.]+", text.text or "") is not None


def test_no_bar_is_cut_however_long() -> None:
    root = ElementTree.fromstring(svg(figures(MADE)))
    bars = [
        float(bar.attrib["width"]) for bar in root.iter(f"{SVG}rect") if bar.get("class") != "page"
    ]
    for (_, value), width in zip(SERVERS, bars, strict=True):
        assert width / bars[-1] == pytest.approx(value / SERVERS[-1][1], abs=0.001)
    width = float(root.attrib["viewBox"].split()[2])
    assert all(float(text.attrib["x"]) < width - 40 for text in root.iter(f"{SVG}text"))


def test_sentences() -> None:
    text = sentences(figures(MADE))
    assert re.findall(r"\d[\d.,]*\d|\d(?= MB| ms| s)", text.replace("p99", "")) == [
        "2.5", "6.0", "400.25", "2.0", "0.5", "0.5", "7", "7", "10,000", "0.5", "0.5", "7", "7",
    ]  # fmt: skip
    assert len(re.findall(r"\.(?=\s|$)", text)) == 3
    assert max(map(len, text.splitlines())) <= 120


@pytest.mark.parametrize(
    ("page", "sentence"),
    [
        (made_page(*SERVERS[:-1]), "its beginning needs the drain figure of CoreDNS in cluster;"),
        (made_page(*SERVERS, watch=""), 'needs "median, ms" of write to answer, 10,000 Services for both servers;'),
        (MADE.replace("### cluster", "### other"), "needs the drain figure of C echo in cluster;"),
        (MADE.replace(END, ""), f"the page must have the lines {BEGIN} and {END} once each"),
    ],
    ids=["no CoreDNS", "not watched", "other mix", "no mark"],
)  # fmt: skip
def test_a_page_without_its_figures_is_left_alone(page: str, sentence: str, tmp_path: Path) -> None:
    path = tmp_path / "page.md"
    with pytest.raises(BenchmarkError, match=re.escape(sentence)):
        summary.write(path, page)
    assert list(tmp_path.iterdir()) == []


def test_page_and_plot_are_written(tmp_path: Path) -> None:
    path = tmp_path / "page.md"
    summary.write(path, MADE)
    once = path.read_text()
    assert once.count(BEGIN) == once.count(END) == 1
    assert "old" not in once
    assert refreshed(once) == once
    assert path.with_name(PLOT).read_text() == svg(figures(MADE))
