from xml.etree import ElementTree

from loadtest.answering.mixes import DNSPERF, DRAIN, MIXES
from loadtest.answering.plot import svg
from loadtest.answering.results import Results, Sample

SVG = "{http://www.w3.org/2000/svg}"


def test_bars_have_the_length_of_their_figures_and_a_long_one_is_cut() -> None:
    samples = [
        Sample("hot", "echo", DRAIN, 0, 4.0, 0.0),
        Sample("hot", "echo", DNSPERF, 0, 5.0, 0.0),
        Sample("hot", "hsdns", DRAIN, 0, 8.0, 0.0),
        Sample("hot", "coredns", DRAIN, 0, 400.0, 0.0),
        Sample("tcp", "hsdns", DNSPERF, 0, 8.0, 0.0),
    ]
    root = ElementTree.fromstring(svg(Results(samples, []), MIXES))
    widths = [
        float(bar.attrib["width"])
        for bar in root.iter(f"{SVG}rect")
        if bar.find(f"{SVG}title") is not None
    ]
    echo, hsdns, coredns, tcp = widths
    assert (hsdns, tcp) == (2 * echo, 2 * echo)
    assert coredns == 4 * hsdns
    texts = [text.text for text in root.iter(f"{SVG}text")]
    assert "400.00 →" in texts
    assert "8.00" in texts


def test_nothing_is_drawn_as_nothing() -> None:
    ElementTree.fromstring(svg(Results([], []), MIXES))
