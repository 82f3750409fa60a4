import io
from xml.etree import ElementTree

from PIL import Image

from loadtest.answering.mixes import DNSPERF, DRAIN, MIXES
from loadtest.answering.plot import picture, png, svg
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
    assert "400.00, cut" in texts
    assert "8.00" in texts


def test_png_shows_the_same_bars() -> None:
    results = Results(
        [Sample("hot", "echo", DRAIN, 0, 4.0, 0.0), Sample("hot", "hsdns", DRAIN, 0, 8.0, 0.0)], []
    )
    image = Image.open(io.BytesIO(png(results, MIXES))).convert("RGB")
    drawn = picture(results, MIXES)
    assert image.height == 2 * drawn.height
    for bar in drawn.bars:
        line = [image.getpixel((x, 2 * bar.y + 15)) for x in range(image.width)]
        colour = bytes.fromhex(bar.colour[1:])
        near = [
            pixel
            for pixel in line
            if isinstance(pixel, tuple)
            and all(abs(one - other) < 12 for one, other in zip(pixel, colour, strict=True))
        ]
        assert abs(len(near) - 2 * bar.width) < 10
    assert [bar.width for bar in drawn.bars] == [280, 560]


def test_nothing_is_drawn_as_nothing() -> None:
    ElementTree.fromstring(svg(Results([], []), MIXES))
    assert Image.open(io.BytesIO(png(Results([], []), MIXES))).format == "PNG"
