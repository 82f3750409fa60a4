import pytest

from hsdns.load.output import markup


@pytest.mark.parametrize(
    "text",
    [
        markup.section("<b>", ""),
        markup.part("<b>", ""),
        markup.paragraph("<b>"),
        markup.notes([("bad", "<b>", "<b>")]),
        markup.legend([("p50", "<b>"), ("server s0", "<b>")]),
        markup.figure("<b>", "<svg/>", ""),
        markup.table("<b>", ("<b>",), [("<b>",)]),
        markup.facts([("<b>", "<b>")]),
    ],
)
def test_what_is_written_is_text(text: str) -> None:
    assert "<b>" not in text
    assert "&lt;b&gt;" in text


def test_nothing_to_show() -> None:
    assert markup.notes([]) == ""
    assert markup.figure("a", "", "") == ""


def test_what_scrolls_can_be_reached_by_keyboard() -> None:
    assert 'tabindex="0" role="group" aria-label="a"' in markup.figure("a", "<svg/>", "")
    assert 'tabindex="0" role="group" aria-label="Table"' in markup.table("", ("x",), [])
