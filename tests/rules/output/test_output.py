"""All formats."""

import pytest

from hsdns.rules.output import FORMATS, Report, formatted


@pytest.mark.parametrize("output", FORMATS)
def test_a_format_has_the_finding(report: Report, output: str) -> None:
    text = "\n".join(formatted(report, output))
    assert "HS131" in text
