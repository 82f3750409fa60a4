"""Findings in the formats of `hsdns lint -o`, one module each.

Path: cli/lint.py -> here -> standard output.
"""

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Final, NamedTuple

from hsdns.rules.finding import Finding
from hsdns.rules.mesh import MeshFinding


class Report(NamedTuple):
    """The content of a report: findings at or over the level, the number below it, silenced ones, and what was read.

    `mesh` are findings of istioctl.
    """

    findings: list[Finding]
    below: int
    silenced: list[Finding]
    objects: int
    files: int
    unread: list[str]
    mesh: Sequence[MeshFinding] = ()


_MODULES: Final = {
    "text": "plain",
    "json": "document",
    "sarif": "sarif",
    "junit": "junit",
    "github": "github",
}
FORMATS: Final = tuple(_MODULES)


def formatted(report: Report, output: str) -> list[str]:
    """The lines of the report in a format, with names that control nothing."""
    write: Callable[[Report], list[str]] = import_module(
        f"hsdns.rules.output.{_MODULES[output]}"
    ).write
    return write(report)
