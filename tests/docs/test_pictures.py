"""The pictures of the documentation are those that their scripts draw."""

import xml.etree.ElementTree as ET

from docs.pictures.architecture import TARGET, draw


def test_the_picture_is_the_one_that_the_script_draws() -> None:
    assert TARGET.read_text() == draw(), "run: python docs/pictures/architecture.py"


def test_the_picture_is_well_formed_and_within_its_width() -> None:
    root = ET.fromstring(draw())
    width, height = map(int, root.attrib["viewBox"].split()[2:])
    for element in root.iter("{http://www.w3.org/2000/svg}rect"):
        size = element.attrib
        assert int(size.get("x", 0)) + int(size["width"]) <= width
        assert int(size.get("y", 0)) + int(size["height"]) <= height
