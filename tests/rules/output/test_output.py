"""All formats."""

import pytest

from hsdns.rules.output import FORMATS, Report, formatted


@pytest.mark.parametrize("output", FORMATS)
def test_a_format_has_the_finding_and_ends_its_last_line(report: Report, output: str) -> None:
    text = formatted(report, output)
    assert "HS131" in text
    assert text.endswith("\n")
