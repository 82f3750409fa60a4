"""Findings as text."""

from hsdns.rules.output import Report
from hsdns.rules.output.plain import write


def test_lines(report: Report) -> None:
    assert "\n".join(write(report)) == (
        './a b.yaml:8:17: error HS131 Service db: spec.externalName: "10.1.2.3" is <an> address, 100%\n'
        "\n"
        "HS131 The target of an ExternalName Service is an IP address: https://hsdns.github.io/hsdns/rules/HS131.html\n"
        "\n"
        "1 error in 3 objects of 1 file (2 findings below the -level, 1 silenced, 1 not checked)"
    )


def test_nothing(empty: Report) -> None:
    assert "\n".join(write(empty)) == "nothing found in 3 objects of 1 file"
