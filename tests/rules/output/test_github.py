"""Findings as commands of a workflow."""

from hsdns.rules.output import Report
from hsdns.rules.output.github import write


def test_a_line_for_each(report: Report) -> None:
    found, unread = write(report)
    assert found == (
        "::error file=./a b.yaml,line=8,col=17,title=HS131 The target of an ExternalName Service is an IP address::"
        'Service db: spec.externalName: "10.1.2.3" is <an> address, 100%25 '
        "(https://hsdns.github.io/hsdns/rules/HS131.html)"
    )
    assert unread == "::warning::b.yaml%3A1%3A not YAML".replace("%3A", ":")


def test_nothing(empty: Report) -> None:
    assert write(empty) == []
